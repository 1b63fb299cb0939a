"""Train as a custom job of Vertex AI."""
