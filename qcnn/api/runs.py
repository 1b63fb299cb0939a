"""Tables of local runs in Python, equal to those of qcnn compare."""

from __future__ import annotations

import os
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from qcnn.api.training import RUNS, TrainingResult
from qcnn.targets.local.target import find_runs, read_run
from qcnn.targets.run_table import Row, tabulate_runs

if TYPE_CHECKING:
    import pandas as pd


def runs(folder: str | PathLike[str] = RUNS) -> pd.DataFrame | list[Row]:
    """Return a table of all runs in a folder, oldest first, like `qcnn compare --runs FOLDER`.

    Args:
        folder: Folder of runs.

    Returns:
        A data frame, or a list of rows if pandas is not installed. The columns are the name, the state, the fields that
        differ, the metrics and the duration in seconds.
    """
    return _table(find_runs((), Path(folder)))


def compare(runs: Sequence[TrainingResult | str | PathLike[str]]) -> pd.DataFrame | list[Row]:
    """Return a table of runs in the given order, like `qcnn compare RUN ...`.

    Args:
        runs: Results of `qcnn.train`, and folders of runs or their names in the folder `runs`.

    Returns:
        A table, see `qcnn.runs`.

    Raises:
        ArtifactError: If a run does not exist.

    >>> trained = [qcnn.train(experiment.replace(seed=seed)) for seed in range(5)]  # doctest: +SKIP
    >>> qcnn.compare(trained)["val_loss"].mean()  # doctest: +SKIP
    """
    names = [str(each.folder) if isinstance(each, TrainingResult) else os.fspath(each) for each in runs]
    return _table(find_runs(names, RUNS) if names else [])


def _table(folders: Sequence[Path]) -> pd.DataFrame | list[Row]:
    header, rows = tabulate_runs([read_run(folder) for folder in folders])
    try:
        import pandas as pd
    except ImportError:
        return rows
    return pd.DataFrame(rows, columns=header)
