"""What a custom job consists of, and what becomes of it."""
