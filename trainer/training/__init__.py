"""Training: exact over any number of workers, and continued where it stopped."""
