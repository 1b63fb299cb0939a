"""Steps that export a model and measure its error."""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
import os
import re
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from qcnn import data
from qcnn.atomic_files import new_file
from qcnn.experiment.saved import from_saved
from qcnn.model.checkpoints import load_history
from qcnn.process.library_loading import load_tensorflow
from qcnn.results.baselines import Baseline, fit_baselines, metrics_of, save_baselines
from qcnn.results.class_scores import Confusion
from qcnn.results.local_run import BASELINES_FILE
from qcnn.results.metric_titles import baseline_texts
from qcnn.results.model_folder import describe
from qcnn.tracking.background import sent_later, track_results
from qcnn.tracking.destination import destination_in
from qcnn.tracking.tracked_run import Results, run_folder, training_run

if TYPE_CHECKING:
    from qcnn.experiment.config import ExperimentConfig
    from qcnn.results.evaluate import EvaluationResult

logger = logging.getLogger("qcnn")


def export_weights(training: str, model: str) -> dict[str, Any]:
    """Write the model folder and return its metadata."""
    load_tensorflow()
    from qcnn.results.export import export

    description = export(Path(training), Path(model))
    identity = {name: description[name] for name in ("dataset_digest", "weights")}
    return {"framework": "tensorflow", **identity, **description["training"], **description["provenance"]}


def evaluate(
    model: str, dataset: str, training: str, predictions: str, metrics: str, report: str, baselines: str
) -> tuple[dict[str, float], Confusion, dict[str, Any]]:
    """Evaluate a model on the test split and write predictions, metrics and report.

    With the field `baseline`, classical models are fitted, too, and their metrics are added to those of the model.

    Args:
        model: Folder of the exported model.
        dataset: Folder of the dataset.
        training: Training folder with the history.
        predictions: Folder for predictions.csv.
        metrics: Path of the metrics (JSON).
        report: Path of the report (HTML).
        baselines: Folder for the results of classical models (JSON), which exist with the field `baseline` only.

    Returns:
        The metrics, the confusion matrix, and the metadata of predictions and report.
    """
    held_out = data.load(Path(dataset))
    history = load_history(Path(training))
    load_tensorflow()
    from qcnn.results import evaluate as evaluation
    from qcnn.results.report import report_page

    result = evaluation.evaluate(Path(model), held_out)
    evaluation.report(result)
    evaluation.save_predictions(result, Path(predictions))
    fitted = fitted_baselines(result, held_out, from_saved(result.description["experiment"]), {})
    if fitted:
        save_baselines(fitted, held_out, Path(baselines) / BASELINES_FILE)
    result = dataclasses.replace(result, metrics=result.metrics | metrics_of(fitted))
    with new_file(Path(metrics)) as unfinished:
        unfinished.write_text(json.dumps(result.metrics, indent=2) + "\n", encoding="utf-8")
    confusion = result.confusion
    page = report_page(
        result.description, history, result.samples, result.predictions, result.metrics, confusion, fitted
    )
    with new_file(Path(report)) as unfinished:
        unfinished.write_text(page, encoding="utf-8")
    return result.metrics, confusion, {"weights": result.description["weights"], **result.description["provenance"]}


def fitted_baselines(
    result: EvaluationResult, dataset: data.Dataset, config: ExperimentConfig, fits: MutableMapping[object, Any]
) -> tuple[Baseline, ...]:
    """Fit classical models if the experiment compares its network with them, and log their results.

    Args:
        result: Evaluation of the network.
        dataset: Dataset of the experiment.
        config: Experiment.
        fits: Fits of other experiments, see `fit_baselines`.
    """
    if not config.options.baseline:
        return ()
    logger.info("fitting classical models of scikit-learn")
    fitted = fit_baselines(dataset, result.parameters, result.predictions, config.seed, result.rounding, fits)
    for title, text in baseline_texts(metrics_of(fitted)).items():
        logger.info("%s: %s", title, text)
    return fitted


def track(model: str, training: str, metrics: Mapping[str, float], uris: Mapping[str, str]) -> None:
    """Send the results of a run to its tracking server, if the environment names one. A failure is only logged.

    Args:
        model: Folder of the exported model.
        training: Training folder, which has the identity of the run.
        metrics: Metrics of the evaluation.
        uris: URIs or paths of the artifacts by name.
    """
    if destination_in(os.environ) is None:
        return
    _, config = describe(Path(model))
    run = training_run(config, Path(training), {"training": uris["training"]})
    where = run_folder(Path(training)) or uris["training"]
    track_results(os.environ, run, Results(metrics, uris, model), sent_later(where))


def save_confusion(confusion: Confusion, path: str) -> None:
    """Write a confusion matrix and its labels as JSON, both empty for regression."""
    content = {"labels": confusion.classes, "matrix": confusion.matrix}
    with new_file(Path(path)) as unfinished:
        unfinished.write_text(json.dumps(content) + "\n", encoding="utf-8")


# Characters of a class name that are not text in Markdown (CommonMark 0.31, 2.4, and tables of GitHub).
_SPECIAL = re.compile(r"[\\`*{}\[\]<>()#+!|~&]")


def summarize(metrics: Mapping[str, float], uris: Mapping[str, str], summary: str) -> None:
    """Write metrics and artifact URIs as Markdown, with the common folder of the URIs as a heading.

    Args:
        metrics: Metrics by name.
        uris: URIs or paths of the artifacts by name.
        summary: Path of the Markdown file.
    """
    named = [(_SPECIAL.sub(r"\\\g<0>", name), value) for name, value in metrics.items()]
    metrics_table = tabulate(named, ("metric", "value"), "github", floatfmt=".6g")
    parents = zip(*(uri.split("/")[:-1] for uri in uris.values()), strict=False)
    folder = "".join(f"{names[0]}/" for names in itertools.takewhile(lambda names: len(set(names)) == 1, parents))
    rows = [(name, f"`{uri.removeprefix(folder)}`") for name, uri in uris.items()]
    artifacts_table = tabulate(rows, ("artifact", "URI"), "github")
    heading = f"In `{folder}`:\n\n" if folder else ""
    page = f"# Summary\n\n## Metrics\n\n{metrics_table}\n\n## Artifacts\n\n{heading}{artifacts_table}\n"
    with new_file(Path(summary)) as unfinished:
        unfinished.write_text(page, encoding="utf-8")
