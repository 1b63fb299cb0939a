"""Requirements and cost estimates of the simulators, without loading TensorFlow."""
