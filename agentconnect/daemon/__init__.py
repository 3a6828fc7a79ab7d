"""The daemon's API: Notify, sessions, scheduled tasks, over HTTP (channel-delivery.md)."""
