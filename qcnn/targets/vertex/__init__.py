"""Vertex AI: pipelines, custom jobs, and models that answer requests."""
