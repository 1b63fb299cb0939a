"""What starts a training and follows it to its end; knows neither experiments nor Kubeflow Pipelines."""
