"""The training step: one description of a training job, and the ways to run it."""
