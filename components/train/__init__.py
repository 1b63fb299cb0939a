"""Train on several workers."""
