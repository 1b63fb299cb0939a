"""What is known of predictions beside their labels, counted while they are made: in bounded memory."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from qcnn.data.samples import FeatureLayout

# Rows that are kept to be drawn; a figure shows no more.
_KEPT = 2000

Values = npt.NDArray[np.float64]


@dataclasses.dataclass
class Moments:
    """Number, mean and sum of squared deviations of values that come in pieces.

    Two are put together by T. Chan, G. Golub and R. LeVeque, Updating formulae and a pairwise algorithm for computing
    sample variances (1979).
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, values: Values) -> None:
        """Take the next values (rows,)."""
        mean, count = float(values.mean()), self.count + len(values)
        distance = mean - self.mean
        self.squares += float(np.sum((values - mean) ** 2)) + distance**2 * self.count * len(values) / count
        self.mean += distance * len(values) / count
        self.count = count


class ErrorAccumulator:
    """The error of predictions over all rows, and a random few of the rows; equal rows give equal ones."""

    def __init__(self, layout: FeatureLayout, qubits: int) -> None:
        self.layout = layout
        self._labels, self._errors, self._right = Moments(), Moments(), 0
        self._first_label = 0.0
        self._of_qubits = np.zeros((2, qubits))
        self._random = np.random.default_rng(0)
        self._kept: dict[str, Values] = {}

    def add(self, columns: Mapping[str, Values], label: Values, prediction: Values) -> None:
        """Take the next rows: what predictions were made of, their labels and predictions, each (rows,)."""
        error = (prediction - label) ** 2
        if not self.rows:
            self._first_label = float(label[0])
        # The mean of equal labels may be rounded: from the first of them they differ by exactly nothing.
        self._labels.add(label - self._first_label)
        self._errors.add(error)
        self._right += int(np.sum((prediction >= 0) == (label > 0)))
        if self.layout.preparation.kind == "excitation":
            qubit = columns["qubit"].astype(np.int64)
            count = self._of_qubits.shape[1]
            self._of_qubits += np.bincount(qubit, minlength=count), np.bincount(qubit, error, minlength=count)
            self._keep({"angle": columns["angle"], "label": label, "prediction": prediction})
        else:
            self._keep({"label": label, "prediction": prediction})

    @property
    def rows(self) -> int:
        """How many rows there were."""
        return self._errors.count

    @property
    def metrics(self) -> dict[str, float]:
        """The mean squared error; of two classes the share of predictions with the label's sign, else r2.

        There is no r2 where all labels are the same.
        """
        mse, spread = {"mse": self._errors.mean}, self._labels.squares / self.rows
        if not self.layout.is_regression:
            return {**mse, "accuracy": self._right / self.rows}
        return {**mse, "r2": 1 - self._errors.mean / spread} if spread else mse

    @property
    def error_by_qubit(self) -> Values:
        """The mean squared error of each qubit's excitations (qubits,), nan where there is none."""
        count, total = self._of_qubits
        return np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)

    @property
    def kept(self) -> dict[str, Values]:
        """Angle, of excitations, label and prediction of the rows that were kept, each (rows,)."""
        return {name: values for name, values in self._kept.items() if name != "draw"}

    def _keep(self, columns: Mapping[str, Values]) -> None:
        """Keep the rows with the smallest numbers of those that are drawn for all rows."""
        draw = self._random.random(len(columns["label"]))
        most = self._kept["draw"][-1] if len(self._kept.get("draw", ())) == _KEPT else 1.0
        new = {name: values[draw < most] for name, values in {**columns, "draw": draw}.items()}
        both = {name: np.concatenate([self._kept.get(name, np.zeros(0)), values]) for name, values in new.items()}
        smallest = np.argsort(both["draw"], kind="stable")[:_KEPT]
        self._kept = {name: values[smallest] for name, values in both.items()}
