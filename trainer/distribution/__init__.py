"""Distributed training: strategies, roles of processes, and devices."""
