"""The steps that make data of a file that a run has imported."""
