"""Parts of a custom job: validation, replicas, environment and failure handling."""
