"""Where Python looks for modules: in the folder that a user runs from last, so that nothing there hides a library."""

import contextlib
import sys
from pathlib import Path


def leave_folder_last() -> None:
    """Look in the folder of python -m last, which has put it first; once it looks for the module that it runs.

    Python 3.11 could leave it out (-P), but then a model of the user's own would not be found there.
    """
    # While it looks, and only then, that is the name of the program (docs.python.org, "-m").
    if sys.argv[:1] != ["-m"]:
        return
    with contextlib.suppress(OSError):
        if sys.path[:1] == [str(Path.cwd())]:
            sys.path.append(sys.path.pop(0))


def leave_out_last(folder: str) -> None:
    """Do not look in a folder any more that is the last, as where a process has changed to another."""
    if sys.path[-1:] == [folder]:
        del sys.path[-1]


def look_last(folder: str) -> None:
    """Look for modules in a folder, after all other places, if it is none of them."""
    if folder not in sys.path:
        sys.path.append(folder)
