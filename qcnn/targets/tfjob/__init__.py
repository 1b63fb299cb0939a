"""TFJobs on a cluster, without a pipeline."""
