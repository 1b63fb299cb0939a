"""What the commands share about a pipelines backend."""
