"""Inference on the test split: python -m trainer.predict --help."""

import argparse

from trainer import data
from trainer.startup import load_tensorflow, one_line_errors, open_standard_streams
from trainer.storage.copies import local_copy


def main() -> None:
    """Print predictions beside their labels, and their mean squared error."""
    open_standard_streams()
    parser = argparse.ArgumentParser(
        description="Predicts the test split of a model. An ADDRESS is a local folder or in a bucket."
    )
    parser.add_argument("--model", metavar="ADDRESS", required=True, help="of the model")
    parser.add_argument("--dataset", metavar="ADDRESS", help="of its dataset; made here if not given")
    arguments = parser.parse_args()
    with one_line_errors(), local_copy(arguments.model) as model:
        load_tensorflow()
        from trainer.results import evaluate, export

        _, experiment = export.describe(model)
        evaluate.report(evaluate.evaluate(model, data.obtain(arguments.dataset, experiment)))


if __name__ == "__main__":
    main()
