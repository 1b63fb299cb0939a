"""Implementations of the pipeline steps."""
