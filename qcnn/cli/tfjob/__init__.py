"""The commands of TFJobs on a cluster."""
