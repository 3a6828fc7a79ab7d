"""The rules: no input or output, no clock, no environment."""
