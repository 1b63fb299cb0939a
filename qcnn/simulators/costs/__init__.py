"""What each simulator can run, and what a training step costs it, before TensorFlow is loaded."""
