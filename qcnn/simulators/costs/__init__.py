"""Requirements and cost estimates of the simulators. Loads no TensorFlow."""
