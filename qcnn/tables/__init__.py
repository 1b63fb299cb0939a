"""Read and write tables in chunks: CSV, Parquet, npz and JSONL files, selected by file extension.

Importing this package does not import pyarrow or NumPy.
"""

from pathlib import PurePosixPath

from qcnn.errors import ConfigError

EXTENSIONS = (".csv", ".parquet", ".npz", ".jsonl")
# Name of standard input or standard output, whose format is CSV.
STANDARD_STREAM = "-"


def extension_of(name: str) -> str | None:
    """Return the file extension of a table's path or URI, or None if it is not a table format.

    A file named `.csv` is a hidden file, not a table.

    >>> extension_of("gs://bucket/rows.CSV"), extension_of("rows.txt"), extension_of(".csv")
    ('.csv', None, None)
    """
    ending = PurePosixPath(name).suffix.lower()
    return ending if ending in EXTENSIONS else None


def check_extension(field: str, name: str) -> str:
    """Return the file extension of a table's path or URI.

    Args:
        field: Field or flag, for the error message.
        name: Path or URI.

    Raises:
        ConfigError: If the extension is not one of `EXTENSIONS`.
    """
    if not (ending := extension_of(name)):
        raise ConfigError(f"{field}: must end in {', '.join(EXTENSIONS[:-1])} or {EXTENSIONS[-1]}. Given: {name}")
    return ending
