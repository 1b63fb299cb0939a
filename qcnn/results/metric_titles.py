"""Titles of metrics in tables and on pages."""

from collections.abc import Mapping


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
