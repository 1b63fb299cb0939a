"""What a training will take, before it runs."""
