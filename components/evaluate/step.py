"""What the evaluate step does."""

import json
from pathlib import Path

from trainer import data
from trainer.folders import new_file
from trainer.startup import load_tensorflow, one_line_errors


def evaluate(model: str, dataset: str, predictions: str, metrics: str) -> dict[str, float]:
    """Write predictions.csv into the folder `predictions` and the metrics as JSON; return the metrics."""
    with one_line_errors():
        held_out = data.load(Path(dataset))
        load_tensorflow()
        from trainer import evaluate as evaluation

        result = evaluation.evaluate(Path(model), held_out)
        evaluation.report(result)
        evaluation.save_predictions(result, Path(predictions))
        with new_file(Path(metrics)) as unfinished:
            unfinished.write_text(json.dumps(result.metrics, indent=2) + "\n", encoding="utf-8")
    return result.metrics
