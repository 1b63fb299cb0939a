"""Have the tuner of Vertex AI go through a search."""
