"""The meaning of the broker's wire (relay-wire.md)."""
