"""The meaning of the Agent Client Protocol's bytes (acp.md)."""
