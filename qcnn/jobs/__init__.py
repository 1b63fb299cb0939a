"""Start a training and follow it to its end; nothing here knows experiments or Kubeflow Pipelines."""
