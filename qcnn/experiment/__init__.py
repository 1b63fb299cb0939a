"""Experiments: their schema, and conversion from and to files, flags and JSON."""
