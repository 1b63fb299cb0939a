"""Where the time of a run goes, of its first epoch, and of a study's trials: python -m benchmarks.startup_time."""
