"""The rules of channels."""
