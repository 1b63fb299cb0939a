"""What a finished training becomes: a model, its error, a report."""
