"""What a training step costs each simulator, and what it refuses, before TensorFlow is loaded."""
