"""Train as a TFJob: what is asked of the cluster (manifest), and who sees to it (launcher)."""
