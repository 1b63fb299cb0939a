"""The commands of a pipelines backend."""
