"""Train on several worker processes of one machine."""
