"""Structural analysis of circuits, without computing states or loading TensorFlow."""
