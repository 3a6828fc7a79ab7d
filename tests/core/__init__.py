"""Rules without a clock, a disk or a network."""
