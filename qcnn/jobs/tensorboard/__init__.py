"""A TensorBoard that runs on a cluster."""
