"""Kubernetes access shared by all types of jobs: API client, pods, manifests and job watcher."""
