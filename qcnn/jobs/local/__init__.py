"""A training as processes of this machine."""
