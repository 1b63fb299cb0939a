"""What every kind of job on a Kubernetes cluster needs: access, pods, and patience with the API."""
