"""What follows from a circuit's structure alone: nothing here computes a state or loads TensorFlow."""
