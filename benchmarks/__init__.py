"""Programs that measure the numbers in the documentation: python -m benchmarks.NAME."""
