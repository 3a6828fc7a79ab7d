"""Real IM servers: ./scripts/test --im tests/im."""
