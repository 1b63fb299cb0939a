"""Predictions of a model: python -m qcnn.trainer.predict --help."""

import argparse
import logging
import os
from pathlib import Path

from qcnn import data
from qcnn.environment import requested_gpus
from qcnn.results.batch_prediction import PredictionSummary, Watch, predict_files, unwatched
from qcnn.results.model_folder import describe
from qcnn.results.predictions import PredictionFiles, files_of
from qcnn.startup import load_tensorflow, one_line_errors, open_standard_streams
from qcnn.storage.copies import local_copy

logger = logging.getLogger("qcnn")


def main() -> None:
    """Predict the rows of a file; without one print predictions of the test split beside their labels."""
    open_standard_streams()
    parser = argparse.ArgumentParser(
        description="Predicts the rows of a file, or without one the test split of a model. An ADDRESS is a local path "
        "or in a bucket; files are CSV, Parquet, npz or JSONL by their endings."
    )
    parser.add_argument("--model", metavar="ADDRESS", required=True, help="of the model's folder")
    parser.add_argument("--dataset", metavar="ADDRESS", help="of its dataset's folder; made here if not given")
    parser.add_argument("--data", metavar="ADDRESS", help="of the file to predict")
    parser.add_argument("--output", metavar="ADDRESS", help="of the file with the predictions")
    parser.add_argument("--report", metavar="ADDRESS", help="of a page about them, .html, for data with labels")
    asked = parser.parse_args()
    with one_line_errors():
        if requested := requested_gpus(os.environ):
            load_tensorflow()
            from qcnn.trainer.distribution.strategies import check_gpus

            check_gpus(requested, {})
        files = files_of(asked.data, asked.output, asked.report)
        with local_copy(asked.model) as model:
            if files:
                predict_new(model, files)
            else:
                predict_held_out(model, asked.dataset)


def predict_new(model: Path, files: PredictionFiles, watch: Watch = unwatched) -> PredictionSummary:
    """Predict the rows of a file; log and return how many there were, and their error where they have labels."""
    predicted = predict_files(model, files, watch)
    logger.info("rows %d", predicted.rows)
    for name, value in predicted.metrics.items():
        logger.info("%s %.6f", name, value)
    return predicted


def predict_held_out(model: Path, dataset: str | None) -> PredictionSummary:
    """Log predictions of the test split beside their labels; log and return their error, and that of the training."""
    load_tensorflow()
    from qcnn.results import evaluate

    _, experiment = describe(model)
    found = evaluate.evaluate(model, data.load_or_generate(dataset, experiment))
    evaluate.report(found)
    return PredictionSummary(len(found.samples), found.metrics)


if __name__ == "__main__":
    main()
