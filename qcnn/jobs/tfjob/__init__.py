"""Training jobs as TFJobs on Kubernetes."""
