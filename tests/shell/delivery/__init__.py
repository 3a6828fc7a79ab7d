"""Deferred deliveries, carried out: a real store and relay client against a scripted broker."""
