"""Server of exported models by the protocols of TensorFlow Serving and the Open Inference Protocol."""
