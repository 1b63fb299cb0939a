"""Measurements behind the figures in the README; run one as python -m benchmarks.NAME."""
