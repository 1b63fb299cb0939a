"""Measure the inference error of an exported model."""
