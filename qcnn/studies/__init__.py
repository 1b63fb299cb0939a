"""Trials of one experiment with other words."""
