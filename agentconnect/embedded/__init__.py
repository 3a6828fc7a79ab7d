"""The relay that ships with us, and its room page."""
