"""Train as a TFJob."""
