"""The target kubeflow: Kubeflow Pipelines (KFP)."""
