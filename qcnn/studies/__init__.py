"""Studies: trials of an experiment over values of its fields."""
