"""The steps of the pipelines: one folder a component, its component.py thin and typed."""
