"""What the commands share about a cluster."""
