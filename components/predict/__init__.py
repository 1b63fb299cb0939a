"""Predict with a trained model."""
