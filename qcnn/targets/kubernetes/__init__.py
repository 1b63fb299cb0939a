"""Training jobs on Kubernetes as a target, with the engine of the cluster or a named one."""
