"""A backend of Kubeflow Pipelines."""
