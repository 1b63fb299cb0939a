"""Training jobs as TrainJobs of Kubeflow Trainer on Kubernetes."""
