"""Trained networks: load, predict and evaluate."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from qcnn.api.experiments import Experiment, from_config
from qcnn.data import Dataset, FeatureLayout, Samples, generate
from qcnn.data.samples import LABEL, PREDICTION
from qcnn.errors import ArtifactError, ConfigError, format_value
from qcnn.frozen import Frozen, freeze, frozen_array
from qcnn.process.extras import translate_errors
from qcnn.registry.references import model_copy, parse_reference
from qcnn.results import html
from qcnn.results.class_scores import Confusion, prediction_columns
from qcnn.results.error_accumulator import ClassAccumulator, ErrorAccumulator
from qcnn.results.local_run import model_in
from qcnn.results.model_folder import describe, read_files, write_files
from qcnn.results.predictor import load_predictor
from qcnn.results.row_checks import check_finite, check_rows
from qcnn.storage.copies import local_copy
from qcnn.storage.store import parse_bucket_uri
from qcnn.targets.local.runs import evaluate_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Number of samples per call of a SavedModel.
_BATCH = 2**16

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]


@dataclasses.dataclass(frozen=True)
class Origin:
    """Model folder, the SHA-256 of its weights, and its files by name if the folder was a temporary copy."""

    folder: Path
    weights_sha256: str
    files: Mapping[str, bytes] | None


class Model(Frozen):
    """A trained network that predicts new samples.

    It can be pickled. A model from a local folder is loaded again from this folder, which must not have changed. A
    model from a bucket is pickled with its files.

    Attributes:
        address: Path or URI of the model or run.
        experiment: Experiment of its training run.
        metrics: Metrics of its training run.
    """

    _instead = "load another with qcnn.load"
    address: str
    experiment: Experiment
    metrics: Mapping[str, float]
    _layout: FeatureLayout
    _predictions: Callable[[Arrays], npt.NDArray[np.float64]]
    _rounding: float
    _origin: Origin

    def __init__(
        self,
        address: str,
        experiment: Experiment,
        metrics: Mapping[str, float],
        layout: FeatureLayout,
        predictions: Callable[[Arrays], npt.NDArray[np.float64]],
        rounding: float,
        origin: Origin,
    ) -> None:
        vars(self).update(address=address, experiment=experiment, metrics=freeze(metrics))
        vars(self).update(_layout=layout, _predictions=predictions, _rounding=rounding, _origin=origin)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the input columns: qubit and angle, or the features of the data file."""
        return self._layout.columns

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes with loss cross_entropy, in the order of the probabilities, else none."""
        return self._layout.predicted_classes

    @translate_errors("Model.predict", "serve")
    def predict(self, samples: Any = None, **columns: Any) -> npt.NDArray[np.float64]:
        """Return the predictions, float64 (samples,), whose sign is the class of two classes.

        With loss cross_entropy, predictions are the probabilities of `classes`, float64 (samples, classes).

        Values are those of the data file. The network scales them as in training.

        Args:
            samples: Mapping of column names to arrays, such as a pandas.DataFrame, whose other columns are ignored; or
                one array (samples, columns) in the order of `self.columns`.
            columns: Arrays (samples,) by column name, in addition to `samples`.

        Raises:
            ConfigError: If a column is missing, unknown, not numeric or of another length, or has an invalid value. The
                message has the column and the row, counted from 1.
        """
        arrays = _numbers(self.columns, samples, columns)
        count = len(next(iter(arrays.values())))
        check_rows(arrays, self._layout, self.experiment.config.qubits)
        if not count:
            return np.zeros([0, len(self.classes)] if self.classes else 0)
        return self._predictions(arrays)

    def __copy__(self) -> Model:
        return self

    def __deepcopy__(self, memo: object) -> Model:
        return self

    def __reduce__(self) -> tuple[Callable[[str, Origin], Model], tuple[str, Origin]]:
        return _load_again, (self.address, self._origin)

    def _repr_html_(self) -> str:
        """Return the experiment and the metrics for a notebook."""
        inputs = {"inputs": ", ".join(self.columns), **({"classes": ", ".join(self.classes)} if self.classes else {})}
        rows = {"experiment": self.experiment, **inputs, **self.metrics}
        return html.notebook_table("Model", self.address, (), [*rows.items()])

    def __repr__(self) -> str:
        return f"<Model of {self.experiment!r}, {self.address}>"


@dataclasses.dataclass(frozen=True)
class EvaluatedSplit:
    """Description of a model, the content of model.json, and the confusion matrix of its test split."""

    description: Mapping[str, Any]
    confusion: Confusion


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Held-out samples, their predictions as those of `Model.predict`, and metrics of evaluation and training."""

    samples: Samples
    predictions: npt.NDArray[np.float64]
    metrics: Mapping[str, float]
    _layout: FeatureLayout = dataclasses.field(repr=False)
    # What was evaluated: the test split, or the metrics of other rows.
    _subject: EvaluatedSplit | ErrorAccumulator | ClassAccumulator = dataclasses.field(repr=False)

    @translate_errors("Evaluation.plot", "run")
    def plot(self, figure: str | None = None) -> Figure:
        """Return a figure of the report as a matplotlib figure.

        Args:
            figure: Name of the figure, which is its title in the report in lower case with underscores, such as
                prediction_against_angle, error_by_qubit or confusion_matrix. None: the first one.

        Raises:
            ConfigError: If the report has no figure of this name.
        """
        # These imports load matplotlib.
        from qcnn.results import plots, report

        if isinstance(self._subject, EvaluatedSplit):
            run, confusion = report.ReportedRun.of(self._subject.description), self._subject.confusion
            figures = [*run.evaluation_figures(self.samples, self.predictions, self.metrics, confusion)]
        else:
            figures = [*report.figures_of_rows(self._subject)]
        by_name = {each.name: each.figure for each in figures}
        if figure is not None and figure not in by_name:
            raise ConfigError(f"figure: must be one of {', '.join(by_name)}. Given: {format_value(figure)}")
        return plots.complete(by_name[figure or next(iter(by_name))])

    def _repr_html_(self) -> str:
        """Return the metrics and the first predictions for a notebook."""
        layout, samples = self._layout, self.samples
        label = np.array(layout.classes, object)[samples.label] if layout.is_classification else samples.label
        predicted = (
            prediction_columns(self.predictions, layout) if layout.is_classification else {PREDICTION: self.predictions}
        )
        columns = {**layout.recover_columns(samples.inputs), **samples.known, LABEL: label, **predicted}
        rows = [*zip(*(column.tolist() for column in columns.values()), strict=True)]
        metrics = html.notebook_table("Evaluation", f"of {len(samples)} samples", (), [*self.metrics.items()])
        return metrics + html.notebook_table("Predictions", "", [*columns], rows)


@translate_errors("qcnn.load", "serve")
def load(address: str | PathLike[str]) -> Model:
    """Load a trained network from the folder of a model or a run, local or in a bucket, or from the model registry.

    Args:
        address: Path, URI such as gs://BUCKET/model, or registered model such as digits@champion or digits@2.

    Raises:
        ArtifactError: If it is not a model, or is damaged.

    After the example of `qcnn.train`:

    >>> import qcnn
    >>> model = qcnn.load("first")
    >>> model.experiment.qubits, model.metrics["epochs"]
    (4, 2)
    >>> model.predict({"qubit": [0, 1, 2], "angle": [0.0, 1.0, -3.0]}).shape
    (3,)
    """
    text = str(address)
    with model_copy(text) as copy:
        # Files of a registered model may be in a bucket.
        is_copy = parse_bucket_uri(text) is not None or parse_reference(text) is not None
        return _load(text, model_in(copy, address), is_copy=is_copy)


def _load(address: str, folder: Path, *, is_copy: bool) -> Model:
    """Load a model from its local folder, whose files are kept if the folder is a temporary copy."""
    description, config = describe(folder)
    predictor = load_predictor(folder)
    files = read_files(folder) if is_copy else None
    origin = Origin(folder.absolute(), description["weights_sha256"], files)
    return Model(
        address,
        from_config(config),
        description["training"],
        predictor.layout,
        predictor.predicts_columns,
        predictor.rounding,
        origin,
    )


@translate_errors("qcnn.load", "serve")
def _load_again(address: str, origin: Origin) -> Model:
    """Load a pickled model.

    Raises:
        ArtifactError: If its folder is missing, damaged, or of another model.
    """
    if origin.files is not None:
        with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
            write_files(origin.files, Path(temporary))
            return _load(address, Path(temporary), is_copy=True)
    model = _load(address, origin.folder, is_copy=False)
    if model._origin != origin:
        raise ArtifactError(f"model: must be the model that was pickled, not a later one. Given: {origin.folder}")
    return model


@translate_errors("qcnn.evaluate", "run")
def evaluate(model: Model | str | PathLike[str], dataset: Dataset | None = None, *, data: object = None) -> Evaluation:
    """Predict the held-out samples with a model's exported weights, and calculate the error.

    Args:
        model: Model, or its path or URI.
        dataset: Dataset with the held-out samples. None: generated from the model's experiment.
        data: New rows with labels to evaluate instead: arrays (x, y), a data frame or a mapping of columns, as for
            `qcnn.train`. The metrics are those of qcnn predict.

    Raises:
        ArtifactError: If the model is damaged, or was trained on another dataset, or a row is invalid.
        ConfigError: If the argument is not a dataset.

    After the example of `qcnn.train`:

    >>> import qcnn
    >>> evaluation = qcnn.evaluate("first")
    >>> len(evaluation.samples), len(evaluation.predictions)
    (6, 6)
    """
    if not isinstance(dataset, Dataset | None):
        raise ConfigError(f"dataset: must be a qcnn.Dataset. Given: {format_value(dataset)}")
    if data is not None:
        if dataset is not None:
            raise ConfigError("data: must be omitted if a dataset is given. Given: both")
        return _evaluate_rows(model if isinstance(model, Model) else load(model), data)
    address = model.address if isinstance(model, Model) else model
    with local_copy(str(address)) as copy:
        folder = model_in(copy, address)
        description, config = describe(folder)
        dataset = dataset or generate(config)
        found = evaluate_model(folder, dataset)
    subject = EvaluatedSplit(freeze(description), found.confusion)
    return Evaluation(dataset.test, frozen_array(found.predictions), freeze(found.metrics), dataset.layout, subject)


def _evaluate_rows(model: Model, rows: object) -> Evaluation:
    """Evaluate a model on rows from memory, by the rules of files."""
    from qcnn.data import memory
    from qcnn.results.batch_prediction import accumulator_of, predicted_pieces
    from qcnn.tables.table import open_table

    layout, qubits = model._layout, model.experiment.config.qubits
    with tempfile.TemporaryDirectory(prefix="qcnn-") as temporary:
        path = Path(temporary, "rows.parquet")
        memory.write_rows(memory.table_of(rows, layout.columns), path)
        accumulator, labels, predictions, inputs = accumulator_of(layout, qubits, model._rounding), [], [], []
        with open_table(str(path)) as table:
            for piece, label, prediction in predicted_pieces(
                table, layout, qubits, model._predictions, with_labels=True
            ):
                labels.append(label)
                predictions.append(prediction)
                accumulator.add(piece.columns, label, prediction)
                inputs.append(layout.inputs(piece.columns))
    every = {name: np.concatenate([each[name] for each in inputs]) for name in inputs[0]}
    samples = Samples(every, np.concatenate(labels))
    predicted = frozen_array(np.concatenate(predictions))
    return Evaluation(samples, predicted, freeze(accumulator.metrics), layout, accumulator)


def _numbers(names: Sequence[str], samples: Any, columns: Mapping[str, Any]) -> dict[str, npt.NDArray[np.float64]]:
    """Return the given columns with these names, each float64 (samples,).

    Raises:
        ConfigError: If a column is missing, unknown, not numeric or of another length.
    """
    given_columns = dict(columns)
    if unknown := [name for name in columns if name not in names]:
        raise ConfigError(f"{unknown[0]}: must be an input of the network: {', '.join(names)}. Given: {unknown[0]}")
    if isinstance(samples, Sequence) and not isinstance(samples, str):
        try:
            samples = np.asarray(samples)
        except ValueError:
            raise ConfigError(
                f"samples: must be rows of {len(names)} numbers. Given: {format_value(samples)}"
            ) from None
    if isinstance(samples, np.ndarray):
        if samples.ndim != 2 or samples.shape[1] != len(names):
            raise ConfigError(f"samples: must have the shape (samples, {len(names)}). Given: {samples.shape}")
        given_columns = {**dict(zip(names, samples.T, strict=True)), **given_columns}
    elif samples is not None:
        if hasattr(samples, "__arrow_c_stream__") and not hasattr(samples, "iloc"):
            # Tables of Polars and Arrow, whose operators differ from those of mappings.
            import pyarrow as pa

            table = pa.table(samples)
            samples = {name: table.column(name).to_numpy() for name in table.column_names}
        if not hasattr(samples, "__getitem__") or isinstance(samples, str):
            what = "must be a mapping of columns, or an array (samples, columns)"
            raise ConfigError(f"samples: {what}. Given: {format_value(samples)}")
        given_columns = {**{name: samples[name] for name in names if name in samples}, **given_columns}
    if missing := [name for name in names if name not in given_columns]:
        raise ConfigError(
            f"{missing[0]}: must be given, like all of {', '.join(names)}. Given: {', '.join(given_columns) or 'none'}"
        )
    arrays = {name: _column(name, given_columns[name]) for name in names}
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ConfigError(f"samples: all columns must have the same length. Given: {format_value(lengths)}")
    return arrays


def _column(name: str, column: Any) -> npt.NDArray[np.float64]:
    with contextlib.suppress(TypeError, ValueError):
        if np.ma.is_masked(column):
            # Masked values are missing values.
            column = column.astype(np.float64).filled(np.nan)
        array = np.asarray(column)
        # Numbers and booleans. Tables also read True and False as 1 and 0.
        if array.dtype.kind in "iufb" or array.size == 0:
            numbers = array.astype(np.float64)
            if numbers.ndim != 1:
                raise ConfigError(f"{name}: must be an array (samples,). Given: shape {numbers.shape}")
            check_finite(name, numbers)
            return numbers
    raise ConfigError(f"{name}: must be an array of numbers. Given: {format_value(column)}")
