"""Texts to people elsewhere: the channel worker, its adapters, and the manager of workers."""
