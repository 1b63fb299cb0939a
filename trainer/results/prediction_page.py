"""The page of predictions for a file: their error over all rows, and figures of some of them."""

from qcnn.trainer.config import ExperimentConfig
from qcnn.trainer.results import figures, page
from qcnn.trainer.results.page import Figure
from qcnn.trainer.results.tallies import Tally

_TITLES = {"mse": "MSE", "accuracy": "Sign accuracy", "r2": "R2"}


def prediction_page(config: ExperimentConfig, tally: Tally, data: str) -> str:
    """Return the page as HTML; equal input gives equal bytes. `data` is the file that was predicted."""
    tiles = {"Rows": f"{tally.rows:,}", **{_TITLES[name]: f"{value:.4f}" for name, value in tally.metrics.items()}}
    return page.document(
        "Predictions",
        f"{config.model}, {config.qubits} qubits, of {data}",
        [
            page.tiles(tiles),
            page.heading("Figures"),
            page.columns(map(page.figure, _figures(tally))),
            page.heading("Metrics"),
            page.columns([page.pairs({name: f"{value:.6g}" for name, value in tally.metrics.items()})]),
        ],
    )


def _figures(tally: Tally) -> list[Figure]:
    kept = tally.kept
    label, prediction, count = kept["label"], kept["prediction"], len(kept["label"])
    rows = f"{count:,} of {tally.rows:,} rows, drawn at random." if count < tally.rows else f"All {count:,} rows."
    if tally.layout.preparation.kind == "excitation":
        title, by_qubit = "Prediction against angle", "Error by qubit"
        svg = figures.error_by_qubit(tally.error_by_qubit, None, by_qubit)
        return [
            Figure(title, figures.against_angle(kept["angle"], label, prediction, title), rows),
            Figure(by_qubit, svg, "Over all rows that excite it."),
        ]
    if tally.layout.is_regression:
        title = "Prediction against label"
        return [Figure(title, figures.against_label(label, prediction, title), f"{rows} Best is the diagonal.")]
    title = "Predictions of each label"
    return [Figure(title, figures.by_label(label, prediction, title), f"{rows} The sign decides.")]
