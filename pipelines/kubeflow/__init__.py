"""What is Kubeflow's own of a pipeline: how it trains, and what Kubernetes is told of its steps."""
