"""Training jobs as custom jobs of Vertex AI."""
