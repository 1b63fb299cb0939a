"""Tracking of runs on a server of the user, such as MLflow."""
