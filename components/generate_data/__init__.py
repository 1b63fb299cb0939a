"""Check an experiment and make its dataset."""
