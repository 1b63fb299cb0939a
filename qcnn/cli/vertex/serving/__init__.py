"""Trained models that answer requests on Vertex AI: versions, endpoints, traffic, predictions."""
