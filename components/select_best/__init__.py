"""Pick the best trial of a study and evaluate it."""
