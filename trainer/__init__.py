"""Training processes: cluster roles, training loop, TensorBoard events, evaluator and prediction.

The package does not depend on Kubeflow or Kubernetes, and on Vertex AI only by the variables of its processes.
"""
