"""Titles of metrics in tables and on pages."""

from collections.abc import Mapping

# Titles of classical models, whose names begin the names of their metrics.
BASELINES = {"logistic_regression": "logistic regression", "svm": "SVM (RBF kernel)", "perceptron": "perceptron"}


def titled_metrics(metrics: Mapping[str, float], titles: Mapping[str, str]) -> dict[str, float]:
    """Return the metrics that have a title, by title.

    A mean squared error that is the loss is not repeated as `loss`. Accuracy is that of signs only with this loss.

    Args:
        metrics: Metrics by name.
        titles: Titles by name, in the order of the result. That of `accuracy` begins with "sign".
    """
    if "mse" in metrics:
        titles = {name: title for name, title in titles.items() if name != "loss"}
    else:
        sign, _, accuracy = titles["accuracy"].partition(" ")
        titles = {**titles, "accuracy": accuracy if sign.islower() else accuracy.capitalize()}
    return {title: metrics[name] for name, title in titles.items() if name in metrics}


def baseline_texts(metrics: Mapping[str, float]) -> dict[str, str]:
    """Return accuracy and comparison of the classical models of a run as text, by title.

    Args:
        metrics: Metrics by name, see `qcnn.results.baselines.fit_baselines`.
    """
    names = ("accuracy", "difference", "difference_low", "difference_high")
    return {
        title: "accuracy {:.4f}, network {:+.4f} (95 %: {:+.4f} to {:+.4f})".format(
            *(metrics[f"{model}_{name}"] for name in names)
        )
        for model, title in BASELINES.items()
        if f"{model}_accuracy" in metrics
    }
