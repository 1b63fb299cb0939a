"""Make the dataset of one trial of a study."""
