"""Trained networks: loaded from a folder or a bucket, asked for predictions, measured."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from qcnn import data
from qcnn.api.experiments import Experiment, from_config
from qcnn.atomic_files import readable
from qcnn.data import Dataset, FeatureLayout, Samples, file_data
from qcnn.errors import ArtifactError, ConfigError, format_value
from qcnn.extras import translate_errors
from qcnn.frozen import Frozen, frozen, frozen_array
from qcnn.results.local_run import model_in
from qcnn.results.model_folder import FILE, SAVED_MODEL, describe
from qcnn.startup import load_tensorflow
from qcnn.storage.copies import local_copy

# Samples that are predicted at a time by what was exported for others to serve.
_BATCH = 2**16

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]


class Model(Frozen):
    """A trained network: `experiment` and `metrics` of its training, and predictions for new samples.

    `columns` are the names of what it takes of a sample: qubit and angle, or the features of the file that it was
    trained on.
    """

    _instead = "qcnn.load returns another"
    address: str
    experiment: Experiment
    metrics: Mapping[str, float]
    _layout: FeatureLayout
    _predictions: Callable[[Arrays], npt.NDArray[np.float64]]

    def __init__(
        self,
        address: str,
        experiment: Experiment,
        metrics: Mapping[str, float],
        layout: FeatureLayout,
        predictions: Callable[[Arrays], npt.NDArray[np.float64]],
    ) -> None:
        vars(self).update(address=address, experiment=experiment, metrics=frozen(metrics))
        vars(self).update(_layout=layout, _predictions=predictions)

    @property
    def columns(self) -> tuple[str, ...]:
        """What a sample has."""
        return self._layout.columns

    @translate_errors("Model.predict", "serve")
    def predict(self, samples: Any = None, **columns: Any) -> npt.NDArray[np.float64]:
        """Return the prediction for every sample, float64 (samples,): its sign is the class, or it is the value itself.

        `columns` are arrays (samples,) by their names. They may stand in a mapping instead, such as a pandas.DataFrame,
        whose other columns are left alone, or in one array (samples, columns) in the order of `self.columns`. Values
        are those of the file, which the network scales as it was trained to.

        Raises:
            ConfigError: a column is missing, unknown, of another length or no array of numbers.
            ArtifactError: a sample has a value that is not allowed; one line with its number, from 1.
        """
        found = _numbers(self.columns, samples, columns)
        # It loads the libraries that read tables.
        from qcnn.tables.chunks import Chunk

        count = len(next(iter(found.values())))
        file_data.check(Chunk(1, found, lambda row: f"row {row}"), self._layout, self.experiment.config.qubits)
        return self._predictions(found) if count else np.zeros(0)

    def __repr__(self) -> str:
        return f"<Model of {self.experiment!r}, {self.address}>"


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Held-out samples, their predictions, float64 (samples,), and the metrics of both and of the training."""

    samples: Samples
    predictions: npt.NDArray[np.float64]
    metrics: Mapping[str, float]


@translate_errors("qcnn.load", "serve")
def load(address: str | PathLike[str]) -> Model:
    """Load a trained network: the folder of a model or of a run, or an address in a bucket such as gs://BUCKET/model.

    Raises:
        ArtifactError: it is no model, or a damaged one.

    After the example of `qcnn.train`:

    >>> import qcnn
    >>> model = qcnn.load("first")
    >>> model.experiment.qubits, model.metrics["epochs"]
    (4, 2)
    >>> model.predict({"qubit": [0, 1, 2], "angle": [0.0, 1.0, -3.0]}).shape
    (3,)
    """
    with local_copy(str(address)) as copy:
        folder = model_in(copy, address)
        description, config = describe(folder)
        with readable("model", folder / FILE):
            layout, _ = data.described(description)
        load = _rebuilt if importlib.util.find_spec("cirq") else _served
        predictions = load(folder, layout)
    return Model(str(address), from_config(config), description["training"], layout, predictions)


@translate_errors("qcnn.evaluate", "run")
def evaluate(model: Model | str | PathLike[str], dataset: Dataset | None = None) -> Evaluation:
    """Predict the held-out samples of a model's dataset, from its exported weights, and measure the error.

    Without a dataset it is made again, from the model's experiment.

    Raises:
        ArtifactError: the model is damaged, or was trained on another dataset.
        ConfigError: the dataset is none.

    After the example of `qcnn.train`:

    >>> import qcnn
    >>> evaluation = qcnn.evaluate("first")
    >>> len(evaluation.samples), len(evaluation.predictions)
    (6, 6)
    """
    if not isinstance(dataset, Dataset | None):
        raise ConfigError(f"dataset: must be what qcnn.generate returns. Given: {format_value(dataset)}")
    address = model.address if isinstance(model, Model) else model
    with local_copy(str(address)) as copy:
        folder = model_in(copy, address)
        _, config = describe(folder)
        load_tensorflow()
        from qcnn.results import evaluate as evaluation

        found = evaluation.evaluate(folder, dataset or data.generate(config))
    return Evaluation(found.samples, frozen_array(found.predictions), frozen(found.metrics))


def _rebuilt(folder: Path, layout: FeatureLayout) -> Callable[[Arrays], npt.NDArray[np.float64]]:
    """Return what predicts with a network that is built from its weights: reading them runs no code of theirs."""
    load_tensorflow()
    from qcnn.results.export import load_predictor

    predictor = load_predictor(folder)
    return lambda columns: predictor.predict(layout.inputs(columns))


def _served(folder: Path, layout: FeatureLayout) -> Callable[[Arrays], npt.NDArray[np.float64]]:
    """Return what predicts as any TensorFlow Serving would: by a program of TensorFlow, which needs nothing else."""
    path = folder / SAVED_MODEL
    load_tensorflow()
    import tensorflow as tf

    with readable("model", path):
        if not path.is_dir():
            raise FileNotFoundError(path)
        # The function alone would lose its weights.
        loaded = tf.saved_model.load(str(path))
        function = loaded.signatures["serving_default"]
        types = {name: spec.dtype.name for name, spec in function.structured_input_signature[1].items()}
    if layout.features and layout.row_type not in types.values():
        what = "must take float64, as its features are not told apart in float32; export it again"
        raise ArtifactError(f"model: {SAVED_MODEL} {what}. Given: {', '.join(types.values())} in {path}")

    def predictions(columns: Arrays, of_whole: Any = loaded) -> npt.NDArray[np.float64]:
        inputs = layout.inputs(columns)
        if layout.preparation.kind != "excitation":
            # It scales what a row holds by itself.
            inputs = {name: np.stack([*columns.values()], axis=1).astype(types[name]) for name in inputs}
        parts = [
            function(**{name: tf.constant(array[first : first + _BATCH]) for name, array in inputs.items()})
            for first in range(0, len(next(iter(columns.values()))), _BATCH)
        ]
        return np.concatenate([part["prediction"].numpy().astype(np.float64) for part in parts])

    return predictions


def _numbers(names: Sequence[str], samples: Any, columns: Mapping[str, Any]) -> dict[str, npt.NDArray[np.float64]]:
    """Return the columns of these names, float64 (samples,), of what was given.

    Raises:
        ConfigError: one is missing, unknown, of another length or no array of numbers.
    """
    given_columns = dict(columns)
    if unknown := [name for name in columns if name not in names]:
        raise ConfigError(f"{unknown[0]}: a sample of this network has {', '.join(names)}. Given: {unknown[0]}")
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
        if not hasattr(samples, "__getitem__") or isinstance(samples, str):
            what = "must be columns by their names, or an array (samples, columns)"
            raise ConfigError(f"samples: {what}. Given: {format_value(samples)}")
        given_columns = {**{name: samples[name] for name in names if name in samples}, **given_columns}
    if missing := [name for name in names if name not in given_columns]:
        raise ConfigError(
            f"{missing[0]}: must be given, as all of {', '.join(names)}. Given: {', '.join(given_columns) or 'none'}"
        )
    arrays = {name: _column(name, given_columns[name]) for name in names}
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ConfigError(f"samples: all columns must have the same length. Given: {format_value(lengths)}")
    return arrays


def _column(name: str, column: Any) -> npt.NDArray[np.float64]:
    with contextlib.suppress(TypeError, ValueError):
        if np.ma.is_masked(column):  # type: ignore[no-untyped-call]
            # What is masked is missing.
            column = column.astype(np.float64).filled(np.nan)
        array = np.asarray(column)
        # Numbers, and True and False, which are 1 and 0 in tables too.
        if array.dtype.kind in "iufb" or array.size == 0:
            numbers = array.astype(np.float64)
            if numbers.ndim != 1:
                raise ConfigError(f"{name}: must be an array (samples,). Given: shape {numbers.shape}")
            if (bad := ~np.isfinite(numbers)).any():
                row = int(np.argmax(bad))
                raise ConfigError(f"{name}: row {row + 1} must be a finite number. Given: {numbers[row]}")
            return numbers
    raise ConfigError(f"{name}: must be an array of numbers. Given: {format_value(column)}")
