"""What the commands share about runs of this machine."""
