"""Results of a training run: exported model, evaluation, predictions and reports."""
