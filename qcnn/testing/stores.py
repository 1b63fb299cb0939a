"""Contract of stores: atomic files with names and versions in the folder of a bucket."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from qcnn.storage.folder import open_conditional_store
from qcnn.storage.store import MissingFileError, Store, parse_bucket_uri
from qcnn.storage.sync import open_store

_LARGE = bytes(range(256)) * 4096
# Process that writes a file twice, and is killed without closing the store.
_KILLED = """
import os, signal, sys
from pathlib import Path
from qcnn.testing.stores import opened
with opened(sys.argv[1]) as store:
    for name in ("replaced", "replaced", "sub/new"):
        Path(sys.argv[2]).write_text(name + " " + str(len(store.names())))
        store.write(Path(sys.argv[2]), name)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def opened(uri: str) -> contextlib.closing[Store]:
    """Return a context manager that opens and closes the store of a URI."""
    bucket_uri = parse_bucket_uri(uri)
    assert bucket_uri
    return contextlib.closing(open_store(bucket_uri))


def put(store: Store, folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files with the given contents to a store, through a file in a local folder."""
    for name, content in files.items():
        path = folder / "content-to-write"
        path.write_bytes(content)
        store.write(path, name)


def contents(store: Store, folder: Path) -> dict[str, bytes]:
    """Return the contents of all files of a store, read through a file in a local folder."""
    found = {}
    for name in store.names():
        store.read(name, folder / "content-read")
        found[name] = (folder / "content-read").read_bytes()
    return found


class StoreContract:
    """Tests of a store of this package or of an installed plug-in. The fixture `bucket` is the URI of a bucket."""

    @pytest.fixture
    def bucket(self) -> str:
        """URI of an empty bucket, as scheme://bucket, which a subclass returns."""
        raise NotImplementedError

    @pytest.mark.parametrize("folder", ["", "/", "/a", "/a/b/"])
    def test_files_are_read_as_written(self, bucket: str, folder: str, tmp_path: Path) -> None:
        """Write, list, read and replace files in folders of any depth."""
        with opened(bucket + folder) as store:
            assert store.names() == list(store.versions()) == []
            written = {"empty": b"", "a file.txt": b"text", "sub/sub/large.bin": _LARGE}
            put(store, tmp_path, written)
            put(store, tmp_path, {"a file.txt": b"other"})
            assert contents(store, tmp_path) == {**written, "a file.txt": b"other"}

    def test_folders_are_separate(self, bucket: str, tmp_path: Path) -> None:
        """List no files of a folder whose name is longer."""
        with opened(f"{bucket}/run-10") as other, opened(f"{bucket}/run-1") as store:
            put(other, tmp_path, {"file": b"text"})
            assert store.names() == list(store.versions()) == []

    def test_versions_change_with_content(self, bucket: str, tmp_path: Path) -> None:
        """Compare the versions of contents of the same size, written in immediate succession."""
        with opened(f"{bucket}/a") as store:
            put(store, tmp_path, {"changed": b"0000", "same": b"text"})
            versions = [store.versions()]
            for number in range(5):
                put(store, tmp_path, {"changed": b"000%d" % (number + 1)})
                versions.append(store.versions())
        assert all(set(each) == {"changed", "same"} for each in versions)
        assert len({each["changed"] for each in versions}) == len(versions)
        assert len({each["same"] for each in versions}) == 1

    def test_missing_file_is_an_error_with_its_own_type(self, bucket: str, tmp_path: Path) -> None:
        """Read a file that was deleted after it was listed."""
        with opened(f"{bucket}/a") as store:
            put(store, tmp_path, {"file": b"text", "kept": b"text"})
            store.delete("file")
            with pytest.raises(MissingFileError) as raised:
                store.read("file", tmp_path / "read")
            assert "\n" not in str(raised.value)
            assert store.names() == list(store.versions()) == ["kept"]
            # It does not exist any more.
            store.delete("file")

    def test_files_of_a_killed_process_are_complete(self, bucket: str, tmp_path: Path) -> None:
        """Kill a process between two calls. What it wrote must be readable."""
        uri = f"{bucket}/killed"
        command = [sys.executable, "-c", _KILLED, uri, str(tmp_path / "file")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        with opened(uri) as store:
            assert contents(store, tmp_path) == {"replaced": b"replaced 1", "sub/new": b"sub/new 1"}

    def test_replaced_file_is_always_complete(self, bucket: str, tmp_path: Path) -> None:
        """Read a file while it is replaced by other content."""
        uri, expected = f"{bucket}/replaced", [_LARGE, bytes(reversed(_LARGE))]
        has_ended = threading.Event()
        (tmp_path / "writer").mkdir()

        def replace() -> None:
            try:
                with opened(uri) as store:
                    for number in range(20):
                        put(store, tmp_path / "writer", {"file": expected[number % 2]})
            finally:
                has_ended.set()

        with opened(uri) as store:
            put(store, tmp_path, {"file": _LARGE})
            writer = threading.Thread(target=replace)
            writer.start()
            found = []
            while not has_ended.is_set():
                found.append(contents(store, tmp_path))
            writer.join()
            assert all(each.keys() == {"file"} and each["file"] in expected for each in found)
            assert contents(store, tmp_path) == {"file": expected[1]}


class ConditionalStoreContract:
    """Tests of conditional writes, which model registries need. The fixture `bucket` is that of `StoreContract`."""

    def test_file_is_written_only_if_its_version_is_known(self, bucket: str, tmp_path: Path) -> None:
        """Write a new file, and replace it by its version, once each."""
        new, read = tmp_path / "new", tmp_path / "read"
        with contextlib.closing(open_conditional_store(f"{bucket}/a")) as store:
            with pytest.raises(MissingFileError):
                store.read_version("sub/file", read)
            versions: list[str | None] = [None]
            for content in (b"first", b"other", b"first again"):
                new.write_bytes(content)
                assert store.write_if(new, "sub/file", versions[-1])
                # A new file, and each earlier version.
                assert not any(store.write_if(new, "sub/file", version) for version in versions)
                versions.append(store.read_version("sub/file", read))
                assert read.read_bytes() == content
            store.delete("sub/file")
            assert not store.write_if(new, "sub/file", versions[-1])
            assert store.names() == []
            assert store.write_if(new, "sub/file", None)

    def test_one_of_several_writers_wins(self, bucket: str, tmp_path: Path) -> None:
        """Replace one version by several threads at the same time."""
        start, won = threading.Barrier(4), list[int]()

        def replace(turn: int, number: int, version: str | None) -> None:
            path = tmp_path / f"by-{number}"
            path.write_text(f"{turn} {number}")
            with contextlib.closing(open_conditional_store(f"{bucket}/a")) as store:
                start.wait(60)
                if store.write_if(path, "file", version):
                    won.append(number)

        with contextlib.closing(open_conditional_store(f"{bucket}/a")) as store:
            version = None
            for turn in range(3):
                threads = [threading.Thread(target=replace, args=(turn, number, version)) for number in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert len(won) == turn + 1
                version = store.read_version("file", tmp_path / "read")
                assert (tmp_path / "read").read_text() == f"{turn} {won[-1]}"
