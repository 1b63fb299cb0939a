"""Check a search that a tuner goes through."""
