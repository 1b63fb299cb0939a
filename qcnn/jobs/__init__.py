"""Training jobs: start, watch and describe them, independently of experiments and Kubeflow Pipelines."""
