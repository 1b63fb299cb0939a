"""The commands of custom jobs of Vertex AI that train without a pipeline."""
