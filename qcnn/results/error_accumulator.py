"""Metrics of predictions, accumulated over chunks of rows in bounded memory."""

import dataclasses
from array import array
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from qcnn.data.samples import FeatureLayout
from qcnn.model.signs import has_sign, signs_match
from qcnn.results.class_scores import (
    Confusion,
    brier_scores,
    confusion_of_classes,
    cross_entropies,
    is_undetermined,
    roc_auc,
    scores_of_confusion,
    squared_loss,
)

# Number of sampled rows for plots. More dots would not be visible.
_SAMPLE_SIZE = 2000

Values = npt.NDArray[np.float64]


@dataclasses.dataclass
class Moments:
    """Number, mean and sum of squared deviations of values that arrive in chunks.

    Chunks are combined as in T. Chan, G. Golub and R. LeVeque, Updating formulae and a pairwise algorithm for computing
    sample variances (1979).
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, values: Values) -> None:
        """Add the next values (rows,)."""
        mean, count = float(values.mean()), self.count + len(values)
        distance = mean - self.mean
        self.squares += float(np.sum((values - mean) ** 2)) + distance**2 * self.count * len(values) / count
        self.mean += distance * len(values) / count
        self.count = count


class ClassAccumulator:
    """Metrics of class probabilities over all rows.

    For ROC AUC, it keeps 8 bytes per row of two classes. The memory of the other metrics does not depend on the rows.

    Args:
        layout: Layout of the rows.
        rounding: Bound on the rounding error of the probabilities, see `qcnn.results.class_scores`.
    """

    def __init__(self, layout: FeatureLayout, rounding: float = 0.0) -> None:
        self.layout, self.rounding = layout, rounding
        # Number of predictions whose class is not determined.
        self.unsigned = 0
        self._losses, self._distances = Moments(), Moments()
        self._matrix = np.zeros((len(layout.classes), len(layout.classes)), np.int64)
        # Probabilities of the second of two classes, by class of the label. They grow without a second copy.
        self._scores = array("d"), array("d")

    def add(self, columns: Mapping[str, Values], label: Values, probabilities: Values) -> None:
        """Add the next rows.

        Args:
            columns: Input columns by name, which are not used.
            label: Numbers of the classes, (rows,).
            probabilities: Probabilities, (rows, classes).
        """
        numbers = label.astype(np.int64)
        self._losses.add(cross_entropies(numbers, probabilities))
        self._distances.add(brier_scores(numbers, probabilities))
        self._matrix += np.array(confusion_of_classes(numbers, probabilities, self.rounding))
        if len(self.layout.classes) == len(self._scores):
            for number, scores in enumerate(self._scores):
                scores.frombytes(probabilities[numbers == number, 1].astype(np.float64).tobytes())
        self.unsigned += int(np.sum(is_undetermined(probabilities, self.rounding)))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._losses.count

    @property
    def confusion(self) -> Confusion:
        """Confusion matrix of labels and predicted classes."""
        return Confusion(self.layout.classes, self._matrix.tolist())

    @property
    def metrics(self) -> dict[str, float]:
        """Those of `scores_of_probabilities`."""
        scores = scores_of_confusion(self.confusion.matrix, self.layout.classes)
        if all(self._scores):
            scores["roc_auc"] = roc_auc(*(np.frombuffer(values) for values in self._scores))
        return {"loss": self._losses.mean, "brier_score": self._distances.mean, **scores}


class ErrorAccumulator:
    """Metrics of predictions over all rows, and a random sample of rows with a fixed seed.

    Args:
        layout: Layout of the rows.
        qubits: Number of qubits.
        rounding: Bound below which predictions have no sign, see `qcnn.model.signs`.
    """

    def __init__(self, layout: FeatureLayout, qubits: int, rounding: float = 0.0) -> None:
        self.layout, self.rounding = layout, rounding
        # Number of predictions of classes without a sign.
        self.unsigned = 0
        self._labels, self._errors, self._correct = Moments(), Moments(), 0
        self._first_label = 0.0
        # Number of rows and sum of squared errors of each qubit.
        self._of_qubits = np.zeros((2, qubits))
        self._random = np.random.default_rng(0)
        self._sample: dict[str, Values] = {}

    def add(self, columns: Mapping[str, Values], label: Values, prediction: Values) -> None:
        """Add the next rows.

        Args:
            columns: Input columns by name, each (rows,).
            label: Labels, (rows,).
            prediction: Predictions, (rows,).
        """
        error = (prediction - label) ** 2
        if not self.rows:
            self._first_label = float(label[0])
        # Relative to the first label, the variance of equal labels is exactly 0, because no mean is rounded.
        self._labels.add(label - self._first_label)
        self._errors.add(error)
        self._correct += int(np.sum(signs_match(label, prediction, self.rounding)))
        if not self.layout.is_regression:
            self.unsigned += int(np.sum(~has_sign(prediction, self.rounding)))
        if self.layout.preparation.kind == "excitation":
            qubit = columns["qubit"].astype(np.int64)
            count = self._of_qubits.shape[1]
            self._of_qubits += np.bincount(qubit, minlength=count), np.bincount(qubit, error, minlength=count)
            self._add_to_sample({"angle": columns["angle"], "label": label, "prediction": prediction})
        else:
            self._add_to_sample({"label": label, "prediction": prediction})

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._errors.count

    @property
    def metrics(self) -> dict[str, float]:
        """Loss, which is the mean squared error, and accuracy of classes or r2 of a regression.

        r2 is omitted if all labels are equal.
        """
        mse, spread = squared_loss(self._errors.mean), self._labels.squares / self.rows
        if not self.layout.is_regression:
            return {**mse, "accuracy": self._correct / self.rows}
        return {**mse, "r2": 1 - self._errors.mean / spread} if spread else mse

    @property
    def error_by_qubit(self) -> Values:
        """Mean squared error of each qubit's excitations, (qubits,), NaN for qubits without rows."""
        count, total = self._of_qubits
        mean: npt.NDArray[np.float64] = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
        return mean

    @property
    def sample(self) -> dict[str, Values]:
        """Label, prediction and, of excitations, angle of the sampled rows, each (rows,)."""
        return {name: values for name, values in self._sample.items() if name != "draw"}

    def _add_to_sample(self, columns: Mapping[str, Values]) -> None:
        """Keep the rows with the smallest of the random numbers of all rows."""
        draw = self._random.random(len(columns["label"]))
        limit = self._sample["draw"][-1] if len(self._sample.get("draw", ())) == _SAMPLE_SIZE else 1.0
        new = {name: values[draw < limit] for name, values in {**columns, "draw": draw}.items()}
        both = {name: np.concatenate([self._sample.get(name, np.zeros(0)), values]) for name, values in new.items()}
        smallest = np.argsort(both["draw"], kind="stable")[:_SAMPLE_SIZE]
        self._sample = {name: values[smallest] for name, values in both.items()}
