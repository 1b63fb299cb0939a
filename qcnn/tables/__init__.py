"""Tables of numbers in files, read and written in pieces: CSV, Parquet, npz and JSONL, by the ending of the name.

Importing this package loads no library that reads them.
"""

from pathlib import PurePosixPath

from qcnn.errors import ConfigError

ENDINGS = (".csv", ".parquet", ".npz", ".jsonl")


def ending_of(name: str) -> str | None:
    """Return the ending of a table's path or address, None where it names no table; a bare .csv is a hidden file.

    >>> ending_of("gs://bucket/rows.CSV"), ending_of("rows.txt"), ending_of(".csv")
    ('.csv', None, None)
    """
    ending = PurePosixPath(name).suffix.lower()
    return ending if ending in ENDINGS else None


def check_ending(word: str, name: str) -> str:
    """Return the ending of a table's name.

    Raises:
        ConfigError: no table ends so.
    """
    if not (ending := ending_of(name)):
        raise ConfigError(f"{word}: must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}. Given: {name}")
    return ending
