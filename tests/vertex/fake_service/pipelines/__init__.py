"""Vertex AI Pipelines: execution of compiled pipelines, each container step as a custom job."""
