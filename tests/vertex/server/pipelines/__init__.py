"""Runs compiled pipelines as Vertex AI Pipelines does, each container step as a custom job."""
