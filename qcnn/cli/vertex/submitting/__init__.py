"""A pipeline on its way to Vertex AI: how it is to run, the request, and what is said of its answer."""
