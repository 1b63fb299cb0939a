"""Vertex ML Metadata."""
