"""Deferred delivery, carried out: the core's rules over store, relay and export folders."""
