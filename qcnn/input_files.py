"""Reading of the files that a user names: regular files, because reading others may never end, and open pipes."""

import errno
import re
import stat
from pathlib import Path

from qcnn.errors import ConfigError, single_line

# Names of streams that are already open: a here-document or `<(COMMAND)` of a shell. Opening them does not wait.
_OPEN_STREAMS = re.compile(r"/dev/stdin|/dev/fd/\d+|/proc/self/fd/\d+")
_FOLDER = "a folder"
_KINDS = (
    (stat.S_ISDIR, _FOLDER),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotAFileError(OSError):
    """Error of a path to something else than a regular file, such as a folder or a FIFO."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(errno.EINVAL, f"it is {kind}", str(path))
        self._kind = kind

    def message(self, name: str, given: object) -> str:
        """Return the error message for a file that a user names.

        Args:
            name: Name of the file in messages.
            given: Text of the user that names the file.
        """
        kind = "" if self._kind == _FOLDER else f", {self._kind}"
        return f"{name}: must be a file. Given: {given}{kind}"


def check_regular(path: Path) -> None:
    """Check that a path names a regular file, without opening it: opening a FIFO waits for another process.

    Raises:
        NotAFileError: If it names something else.
        OSError: If it does not exist or cannot be accessed.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        raise NotAFileError(path, next((kind for is_kind, kind in _KINDS if is_kind(mode)), "no file"))


def read_input(name: str, path: Path, max_bytes: int, given: str = "") -> str:
    """Return the text of a file that a user names, without a byte order mark.

    Args:
        name: Name of the file in messages.
        path: File to read.
        max_bytes: Maximum size of the file.
        given: Text of the user that names the file. By default, the path.

    Raises:
        ConfigError: If the file is missing, too large, no regular file, not readable or not UTF-8.
    """
    try:
        return read_bytes(name, path, max_bytes, given).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: the file cannot be read ({reason_of(error)}). Given: {given or path}") from None


def read_bytes(name: str, path: Path, max_bytes: int, given: str = "") -> bytes:
    """Return the content of a file that a user names.

    Args:
        name: Name of the file in messages.
        path: File to read.
        max_bytes: Maximum size of the file.
        given: Text of the user that names the file. By default, the path.

    Raises:
        ConfigError: If the file is missing, too large, no regular file or not readable.
    """
    given = given or str(path)
    try:
        if not (_OPEN_STREAMS.fullmatch(str(path)) and path.is_fifo()):
            check_regular(path)
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise ConfigError(f"{name}: the file must have at most {max_bytes} bytes. Given: {given}")
        return content
    except FileNotFoundError:
        raise ConfigError(f"{name}: no such file. Given: {given}") from None
    except NotAFileError as error:
        raise ConfigError(error.message(name, given)) from None
    # A path with invalid characters raises ValueError.
    except (OSError, ValueError) as error:
        reason = reason_of(error)
        raise ConfigError(f"{name}: the file cannot be read ({reason}). Given: {given}") from None


def reason_of(error: Exception) -> str:
    """Return the reason of an error in one line, without the number and the path of an error of the system."""
    return single_line(error.strerror if isinstance(error, OSError) and error.strerror else error)
