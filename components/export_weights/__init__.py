"""Export trained weights as a model."""
