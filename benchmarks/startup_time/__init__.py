"""Time of commands, steps of a run, and trials of a study: python -m benchmarks.startup_time."""
