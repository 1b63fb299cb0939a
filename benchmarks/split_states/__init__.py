"""Split state vectors: exchange of amplitudes between TensorFlow processes, and an exact training step."""
