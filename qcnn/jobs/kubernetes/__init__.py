"""What every kind of job on a Kubernetes cluster needs: access to the API, pods, and following a job to its end."""
