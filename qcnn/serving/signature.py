"""Inputs and outputs of a served model, which are those of its SavedModel, and their conversion to columns and answers.

Both protocols use this module: a request names the inputs of the SavedModel, and answers have its outputs.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from qcnn.data.samples import FeatureLayout
from qcnn.errors import ConfigError, format_value
from qcnn.results.row_checks import check_finite, check_rows
from qcnn.serving.errors import bad_request

Columns: TypeAlias = Mapping[str, npt.NDArray[np.float64]]
DataType: TypeAlias = Literal["INT32", "FP32", "FP64", "BYTES"]

PREDICTION, PROBABILITIES = "prediction", "probabilities"
# Angle in radians by which numbers in decimal form may leave the range of the training split.
_MARGIN = 1e-6


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """Input or output of a model.

    Attributes:
        name: Name in the signature of the SavedModel.
        datatype: Data type of the Open Inference Protocol.
        shape: Shape, in which -1 is the number of rows.
    """

    name: str
    datatype: DataType
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Signature:
    """Signature of a model.

    Attributes:
        layout: Layout of its rows.
        qubits: Number of its qubits.
    """

    layout: FeatureLayout
    qubits: int

    @functools.cached_property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Inputs in their order."""
        if self.layout.preparation.kind == "excitation":
            return TensorSpec("qubit", "INT32", (-1,)), TensorSpec("angle", "FP32", (-1,))
        datatype: DataType = "FP64" if self.layout.row_type == "float64" else "FP32"
        return (TensorSpec(self.layout.row_input, datatype, (-1, len(self.layout.columns))),)

    @functools.cached_property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Outputs in their order."""
        if classes := self.layout.predicted_classes:
            return (
                TensorSpec(PREDICTION, "BYTES", (-1,)),
                TensorSpec(PROBABILITIES, "FP64", (-1, len(classes))),
            )
        return (TensorSpec(PREDICTION, "FP64", (-1,)),)

    def input(self, name: Any) -> TensorSpec:
        """Return the input of a name.

        Raises:
            RequestError: If there is none.
        """
        for spec in self.inputs:
            if spec.name == name:
                return spec
        names = ", ".join(spec.name for spec in self.inputs)
        raise bad_request(f"inputs: must be {names}. Given: {format_value(name)}")

    def requested_outputs(self, names: Sequence[Any], field: str) -> list[str]:
        """Return the names of the requested outputs, each once, all without a request.

        Args:
            names: Names in a request.
            field: Field of the request with the names, for messages.

        Raises:
            RequestError: If there is no output of a name.
        """
        known = [spec.name for spec in self.outputs]
        for name in names:
            if name not in known:
                raise bad_request(f"{field}: must be of {', '.join(known)}. Given: {format_value(name)}")
        return list(dict.fromkeys(names)) or known

    def columns(self, inputs: Mapping[str, Any], max_rows: int) -> Columns:
        """Return the checked columns of the inputs of a request.

        Args:
            inputs: Values by name, as nested sequences or arrays.
            max_rows: Maximum number of rows.

        Raises:
            RequestError: If an input is missing, unknown, not numeric or of another shape, or a value is invalid.
        """
        names = [spec.name for spec in self.inputs]
        for name in inputs:
            self.input(name)
        if missing := [name for name in names if name not in inputs]:
            raise bad_request(f"inputs: must have {missing[0]}. Given: {', '.join(inputs) or 'none'}")
        columns: dict[str, npt.NDArray[np.float64]] = {}
        are_finite = True
        for spec in self.inputs:
            numbers = _numbers(spec, inputs[spec.name])
            are_finite = are_finite and bool(np.isfinite(numbers).all())
            if numbers.ndim == 1:
                columns[spec.name] = numbers
            else:
                columns.update(zip(self.layout.columns, numbers.T, strict=True))
        lengths = {len(column) for column in columns.values()}
        if len(lengths) > 1:
            raise bad_request(f"inputs: must have the same number of rows. Given: {sorted(lengths)}")
        if (rows := lengths.pop()) > max_rows:
            raise bad_request(f"inputs: must have at most {max_rows} rows. Given: {rows}")
        try:
            if not are_finite:
                for name, column in columns.items():
                    check_finite(name, column)
            check_rows(columns, self.layout, self.qubits)
        except ConfigError as error:
            raise bad_request(str(error)) from None
        return columns

    def answers(self, predictions: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[Any]]:
        """Return the outputs by name, of predictions as those of `Model.predict`.

        With classes, `prediction` is an object array (rows,) of the names of the most probable classes.
        """
        if classes := self.layout.predicted_classes:
            best = np.array(classes, object)[np.argmax(predictions, axis=1)]
            return {PREDICTION: best, PROBABILITIES: predictions}
        return {PREDICTION: predictions}

    def outside_of_training(self, columns: Columns) -> dict[str, int]:
        """Return the number of rows outside of the range of the training split, by column, without zeros.

        Only features that were scaled by this range have a known one.
        """
        names, offsets, factors = self._scaled
        if not names:
            return {}
        # The range is scaled to the angles from 0 to pi.
        angles = (np.stack([columns[name] for name in names]) - offsets) * factors
        counts = np.count_nonzero((angles < -_MARGIN) | (angles > np.pi + _MARGIN), axis=1)
        return {name: int(count) for name, count in zip(names, counts, strict=True) if count}

    @functools.cached_property
    def _scaled(self) -> tuple[list[str], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Names of scaled features, and their offsets and factors, float64 (features, 1)."""
        every = zip(self.layout.features, self.layout.offsets, self.layout.factors, strict=False)
        scaled = [each for each in every if each[1:] != (0.0, 1.0)]
        scales = np.array([each[1:] for each in scaled]).reshape(-1, 2)
        return [name for name, *_ in scaled], scales[:, :1], scales[:, 1:]


def _numbers(spec: TensorSpec, values: Any) -> npt.NDArray[np.float64]:
    """Return an input as float64 (rows,) or (rows, columns).

    Raises:
        RequestError: If it is not numeric, or of another shape.
    """
    shape = "[rows]" if len(spec.shape) == 1 else f"[rows, {spec.shape[1]}]"
    try:
        array = np.asarray(values)
        # JSON has no integers beyond float64 that a column may have.
        if array.dtype.kind not in "iufb" and not (array.dtype.kind == "O" and _are_numbers(array)):
            raise TypeError
        with np.errstate(over="ignore"):
            numbers = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise bad_request(f"{spec.name}: must be numbers of shape {shape}. Given: {_shortened(values)}") from None
    if numbers.size == 0 and numbers.ndim == 1:
        numbers = numbers.reshape(0, *spec.shape[1:])
    if numbers.ndim != len(spec.shape) or numbers.shape[1:] != spec.shape[1:]:
        raise bad_request(f"{spec.name}: must be numbers of shape {shape}. Given: shape {list(numbers.shape)}")
    return numbers


def _are_numbers(array: npt.NDArray[Any]) -> bool:
    """Return whether an object array has large integers, which NumPy does not convert."""
    return all(isinstance(value, int | float) for value in array.flat)


def _shortened(values: Any) -> str:
    # The text of a large request is long.
    return format_value(values[:3] if isinstance(values, Sequence) and len(values) > 3 else values)
