"""The commands of Vertex AI's pipelines."""
