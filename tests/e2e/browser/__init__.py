"""The room page in headless Chromium."""
