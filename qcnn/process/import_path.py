"""Module search path: the working folder comes last, so that its modules do not shadow libraries."""

import contextlib
import sys
from pathlib import Path


def leave_folder_last() -> None:
    """Move the working folder, which python -m puts first, to the end of the search path.

    The option -P of Python 3.11 removes the folder. Custom circuits in the working folder must still be importable.
    """
    # Only while Python locates the module, this is the name of the program (docs.python.org, "-m").
    if sys.argv[:1] != ["-m"]:
        return
    with contextlib.suppress(OSError):
        if sys.path[:1] == [str(Path.cwd())]:
            sys.path.append(sys.path.pop(0))


def leave_out_last(folder: str) -> None:
    """Remove a folder from the end of the search path, for a process that changes its working folder."""
    if sys.path[-1:] == [folder]:
        del sys.path[-1]


def append_to_path(folder: str) -> None:
    """Append a folder to the search path unless it is in it."""
    if folder not in sys.path:
        sys.path.append(folder)
