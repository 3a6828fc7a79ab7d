"""The rules of channels: no I/O here."""
