"""Deferred delivery under any history: the shipped courier over a model relay and a model store."""
