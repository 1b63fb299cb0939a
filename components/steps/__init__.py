"""What each step does."""
