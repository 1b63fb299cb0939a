"""Measurements behind the figures in the documents; run one as python -m benchmarks.NAME."""
