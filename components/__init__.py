"""Pipeline steps: KFP component definitions and their implementations."""
