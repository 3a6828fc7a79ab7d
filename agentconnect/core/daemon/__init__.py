"""Channel Delivery's rules."""
