"""The steps of the pipelines: what Kubeflow sees of them, and what each does."""
