"""Monitoring of running processes: JSON logs and Prometheus metrics."""
