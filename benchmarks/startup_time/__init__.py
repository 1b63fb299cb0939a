"""Time of commands, of the steps of a run, and of the trials of a study: python -m benchmarks.startup_time."""
