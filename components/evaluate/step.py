"""What the evaluate step does."""

import json
from pathlib import Path
from typing import Any

from trainer import data
from trainer.folders import new_file
from trainer.history import load_history
from trainer.startup import load_tensorflow, one_line_errors


def evaluate(
    model: str, dataset: str, training: str, predictions: str, metrics: str, report: str
) -> tuple[dict[str, float], dict[str, Any]]:
    """Write predictions.csv into the folder `predictions`, the metrics as JSON and the report as HTML.

    Returns the metrics, and the metadata of the other two.
    """
    with one_line_errors():
        held_out = data.load(Path(dataset))
        history = load_history(Path(training) / "history.csv")
        load_tensorflow()
        from trainer import evaluate as evaluation
        from trainer.report import report_page

        result = evaluation.evaluate(Path(model), held_out)
        evaluation.report(result)
        evaluation.save_predictions(result, Path(predictions))
        with new_file(Path(metrics)) as unfinished:
            unfinished.write_text(json.dumps(result.metrics, indent=2) + "\n", encoding="utf-8")
        page = report_page(result.description, history, result.samples, result.predictions, result.metrics)
        with new_file(Path(report)) as unfinished:
            unfinished.write_text(page, encoding="utf-8")
    return result.metrics, {"weights": result.description["weights"], **result.description["provenance"]}
