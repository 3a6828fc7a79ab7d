"""The published reference client and worker against our relay, unchanged."""
