"""Google Cloud resources, created with gcloud and kubectl."""
