"""A search in the words of a tuner."""

from qcnn.jobs.vertex.tuning.study import Bounds, Values
from qcnn.trainer.config import WORDS, field_type
from qcnn.trainer.study.search import Search
from qcnn.trainer.study.tuning import whole_bounds


def parameters(search: Search) -> list[Values | Bounds]:
    """Return each word that is searched with what it may be."""
    listed: list[Values | Bounds] = [Values(name, values) for name, values in search.grid.items()]
    return listed + [
        Bounds(
            name,
            *whole_bounds(name, bounds),
            whole=field_type(WORDS[name]) is int,
            by_logarithm=bounds.scale == "log",
        )
        for name, bounds in search.ranges.items()
    ]
