"""What runs inside the image: data, circuits, simulators, model, cluster roles, training, export, evaluation.

Knows nothing of Kubeflow or Kubernetes, and of Vertex AI only the variables that it sets for a process.
"""

import os

# TensorFlow Quantum 0.7 builds on Keras 2, which TensorFlow provides only if this is set before its import.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
