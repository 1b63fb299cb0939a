"""Matplotlib figures that notebooks display, with a look that does not depend on the settings of the session."""

import contextlib
import io
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from matplotlib import style
from matplotlib.figure import Figure

# Matplotlib has one set of settings for all threads, and an overlap of two changes would leave one of them behind.
_lock = threading.RLock()


class NotebookFigure(Figure):
    """Figure that a notebook displays without pyplot, which would keep a reference to it and select a backend."""

    def _repr_png_(self) -> bytes:
        """Return the image for the output of a notebook cell."""
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


@contextlib.contextmanager
def figure_style(settings: Mapping[Any, Any]) -> Iterator[None]:
    """Context manager and decorator with the default settings of matplotlib and the given ones.

    Args:
        settings: Settings by name, in addition to the defaults.
    """
    with _lock, style.context(["default", dict(settings)]):
        yield


def complete_figure(figure: Figure, settings: Mapping[Any, Any]) -> Figure:
    """Lay out a figure, so that later drawing needs no settings, and return it.

    Args:
        figure: Figure to lay out.
        settings: Settings of `figure_style`. Matplotlib applies those of ticks when it first draws them.
    """
    with figure_style(settings):
        figure.draw_without_rendering()
    return figure
