"""Costs of training runs: machines and prices of platforms, by number of workers."""
