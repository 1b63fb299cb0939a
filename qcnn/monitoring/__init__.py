"""How a process that runs is watched: lines of its log for machines, and metrics for Prometheus."""
