"""Prediction process: python -m qcnn.trainer.predict --help."""

import argparse
import logging
import os
from pathlib import Path

from qcnn import data
from qcnn.process.environment import requested_gpus
from qcnn.process.error_lines import one_line_errors
from qcnn.process.library_loading import load_tensorflow
from qcnn.process.standard_streams import open_standard_streams
from qcnn.results.batch_prediction import PredictionSummary, Progress, ReportText, no_progress, predict_files
from qcnn.results.model_folder import describe
from qcnn.results.predictions import PredictionFiles, files_of
from qcnn.storage.copies import local_copy

logger = logging.getLogger("qcnn")


def main() -> None:
    """Predict the rows of a file, or print predictions of the test split with their labels."""
    open_standard_streams()
    parser = argparse.ArgumentParser(
        description="Predict the rows of a file. Without --data, predict the test split. A URI is a local path or a "
        "bucket URI. The file extension determines the format: CSV, Parquet, npz or JSONL."
    )
    parser.add_argument("--model", metavar="URI", required=True, help="Model folder.")
    parser.add_argument("--dataset", metavar="URI", help="Dataset folder. By default the dataset is generated.")
    parser.add_argument("--data", metavar="URI", help="File to predict.")
    parser.add_argument("--output", metavar="URI", help="File for the predictions.")
    parser.add_argument("--report", metavar="URI", help="HTML report file, for data with labels.")
    arguments = parser.parse_args()
    with one_line_errors():
        if requested := requested_gpus(os.environ):
            load_tensorflow()
            from qcnn.trainer.distribution.strategies import check_gpus

            check_gpus(requested, {})
        files = files_of(arguments.data, arguments.output, arguments.report)
        with local_copy(arguments.model) as model:
            if files:
                predict_file(model, files)
            else:
                predict_test_split(model, arguments.dataset)


def predict_file(
    model: Path, files: PredictionFiles, progress: Progress = no_progress, report: ReportText = print
) -> PredictionSummary:
    """Predict the rows of a file, and log and return their number and metrics.

    Args:
        model: Model folder.
        files: Input and output files.
        progress: Context manager that reports progress.
        report: Callback for the text of printed predictions.
    """
    summary = predict_files(model, files, progress, report)
    logger.info("rows %d", summary.rows)
    if summary.warning:
        logger.warning("%s", summary.warning)
    for name, value in summary.metrics.items():
        logger.info("%s %.6f", name, value)
    return summary


def predict_test_split(model: Path, dataset: str | None) -> PredictionSummary:
    """Log predictions of the test split with their labels, and log and return the metrics."""
    load_tensorflow()
    from qcnn.results import evaluate

    _, experiment = describe(model)
    evaluation = evaluate.evaluate(model, data.load_or_generate(dataset, experiment))
    evaluate.report(evaluation)
    return PredictionSummary(len(evaluation.samples), evaluation.metrics)


if __name__ == "__main__":
    main()
