"""Training jobs as processes on the local machine."""
