"""What runs inside the image: data, circuits, simulators, model, cluster roles, training, export, evaluation.

Knows nothing of Kubeflow or Kubernetes, and of Vertex AI only the variables that it sets for a process.
"""
