"""The pipelines: wiring only, one module each."""
