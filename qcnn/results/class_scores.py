"""Metrics of class probabilities, by scikit-learn, and the columns of predictions with classes."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from qcnn.data.samples import PREDICTION, PROBABILITY, FeatureLayout

# Beginning of the metrics with the recall of a class.
_RECALL = "recall_"
# Number of scores that are compared at once.
_PART = 2**20
Probabilities = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Confusion:
    """Confusion matrix with the names of the classes, both empty for a regression. Rows are labels."""

    classes: tuple[str, ...]
    matrix: Sequence[Sequence[int]]


def predicted_classes(label: Numbers, probabilities: Probabilities, rounding: float) -> Numbers:
    """Return the number of the most probable class of each sample, (samples,).

    A class whose probability exceeds the next one by less than `rounding` is not determined. It counts as wrong: the
    class of the label is replaced by the next one.

    Args:
        label: Numbers of the classes, (samples,).
        probabilities: Probabilities, (samples, classes).
        rounding: Bound on the rounding error of the probabilities.
    """
    order = np.argsort(-probabilities, axis=1, kind="stable")
    first, second = order[:, 0], order[:, 1]
    return np.where((first == label) & is_undetermined(probabilities, rounding), second, first)


def is_undetermined(probabilities: Probabilities, rounding: float) -> npt.NDArray[np.bool_]:
    """Return where the two most probable classes differ by less than the rounding error, (samples,)."""
    best = np.partition(probabilities, -2, axis=1)
    return best[:, -1] - best[:, -2] < rounding


def squared_loss(mse: float) -> dict[str, float]:
    """Return the metrics of a mean squared error that is the loss. All losses have the metric `loss`."""
    return {"mse": mse, "loss": mse}


def cross_entropies(label: Numbers, probabilities: Probabilities) -> npt.NDArray[np.float64]:
    """Return the loss of each sample, (samples,), see `qcnn.model.losses`."""
    # Imports TensorFlow, which takes seconds.
    from qcnn.model.losses import losses

    return np.asarray(losses(label, probabilities))


def brier_scores(label: Numbers, probabilities: Probabilities) -> npt.NDArray[np.float64]:
    """Return the Brier score of each sample, (samples,): the squared distance of its probabilities from its label's.

    For two classes, it is the squared error of the probability of the second (scikit-learn, brier_score_loss).
    """
    count = probabilities.shape[1]
    distances = np.sum((probabilities - np.eye(count)[label.astype(np.int64)]) ** 2, axis=1)
    return np.asarray(distances / 2 if count == 2 else distances)


def roc_auc(first: Probabilities, second: Probabilities) -> float:
    """Return the area under the ROC curve of two classes, exactly and without copies of the scores.

    It is the fraction of pairs of a sample of each class that the scores order, where equal scores count half
    (J. Hanley and B. McNeil, The meaning and use of the area under a receiver operating characteristic curve, 1982).
    Its value is that of `sklearn.metrics.roc_auc_score`, which copies all scores several times.

    Args:
        first: Scores of the samples of the first class, (samples,), which are sorted in place.
        second: Scores of the samples of the second class, (samples,), which are sorted in place.
    """
    first.sort()
    second.sort()
    # Twice the number of ordered pairs is an integer.
    ordered = sum(
        int(np.sum(np.searchsorted(first, part, "left")) + np.sum(np.searchsorted(first, part, "right")))
        for part in np.array_split(second, -(-len(second) // _PART))
    )
    return ordered / (2 * len(first) * len(second))


def scores_of_probabilities(
    label: Numbers, probabilities: Probabilities, classes: Sequence[str], rounding: float = 0.0
) -> dict[str, float]:
    """Return loss, accuracy, balanced accuracy, Brier score, recall of each class, and ROC AUC of two classes.

    Recall is omitted for a class without samples, and ROC AUC if there are samples of one class only.

    Args:
        label: Numbers of the classes of the samples, (samples,).
        probabilities: Probabilities, (samples, classes).
        classes: Names of the classes.
        rounding: As in `predicted_classes`.
    """
    matrix = confusion_of_classes(label, probabilities, rounding)
    found = scores_of_confusion(matrix, classes)
    if len(classes) == 2 and all(map(any, matrix)):
        from sklearn.metrics import roc_auc_score

        found["roc_auc"] = float(roc_auc_score(label, probabilities[:, 1]))
    loss = float(np.mean(cross_entropies(label, probabilities)))
    return {"loss": loss, "brier_score": float(np.mean(brier_scores(label, probabilities))), **found}


def scores_of_confusion(matrix: Sequence[Sequence[int]], classes: Sequence[str]) -> dict[str, float]:
    """Return accuracy, balanced accuracy and recalls from a confusion matrix with the labels in rows."""
    counts = np.array(matrix, np.float64)
    correct, samples = np.diag(counts), counts.sum(axis=1)
    recalls = {name: right / all_ for name, right, all_ in zip(classes, correct, samples, strict=True) if all_}
    return {
        "accuracy": float(correct.sum() / samples.sum()),
        "balanced_accuracy": float(np.mean([*recalls.values()])),
        **{f"{_RECALL}{name}": float(recall) for name, recall in recalls.items()},
    }


def confusion_of_classes(label: Numbers, probabilities: Probabilities, rounding: float = 0.0) -> list[list[int]]:
    """Return the confusion matrix, with labels in rows and predicted classes in columns.

    Args:
        label: Numbers of the classes of the samples, (samples,).
        probabilities: Probabilities, (samples, classes).
        rounding: As in `predicted_classes`.
    """
    from sklearn.metrics import confusion_matrix

    predicted = predicted_classes(label, probabilities, rounding)
    matrix = confusion_matrix(label, predicted, labels=np.arange(probabilities.shape[1]))
    return [[int(count) for count in row] for row in matrix]


def prediction_columns(probabilities: Probabilities, layout: FeatureLayout) -> dict[str, npt.NDArray[np.generic]]:
    """Return the columns of predictions: the name of the most probable class, and the probability of each class."""
    names = np.array(layout.classes, object)
    columns = {f"{PROBABILITY}{name}": column for name, column in zip(layout.classes, probabilities.T, strict=True)}
    return {PREDICTION: names[np.argmax(probabilities, axis=1)], **columns}
