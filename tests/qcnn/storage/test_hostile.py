"""Objects with hostile names in a bucket are not written outside of the local folder."""

from pathlib import Path

import pytest

from qcnn.errors import ArtifactError, ConfigError
from qcnn.storage.copies import download
from qcnn.storage.store import is_below, parse_bucket_uri
from qcnn.storage.sync import FolderDownloader

HOSTILE = ["../out", "a/../../out", "/out", "//out", "a/..", "..", "a\0b", "a/../b"]


class Named:
    """Store of files with the given names."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def names(self) -> list[str]:
        return list(self._names)

    def versions(self) -> dict[str, str]:
        return dict.fromkeys(self._names, "1")

    def read(self, name: str, path: Path) -> None:
        path.write_text(name)

    def write(self, path: Path, name: str) -> None:
        raise NotImplementedError

    def delete(self, name: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


def _written(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", HOSTILE)
def test_download_name_outside_of_folder_is_rejected(tmp_path: Path, name: str) -> None:
    assert not is_below(name)
    (folder := tmp_path / "copy").mkdir()
    with pytest.raises(ArtifactError, match=r"^bucket: a file's name leads out of its folder\. Given: [^\n]*$"):
        download(Named(name), folder)
    assert not _written(tmp_path)


@pytest.mark.parametrize("names", [["a", "a/b"], ["a/b", "a"], ["a" * 300], ["a/./b", "a"]])
def test_download_invalid_local_name_is_rejected(tmp_path: Path, names: list[str]) -> None:
    message = r"^bucket: the local file system rejects the file name \([^\n]*\)\. Given: a"
    with pytest.raises(ArtifactError, match=message):
        download(Named(*names), tmp_path)


def test_download_similar_valid_names_are_kept(tmp_path: Path) -> None:
    (folder := tmp_path / "copy").mkdir()
    download(Named("..a", "a/..b", "a/./c", "marker/", ""), folder)
    assert _written(tmp_path) == ["copy/..a", "copy/a/..b", "copy/a/c"]


def test_folder_downloader_skips_names_outside_of_folder(tmp_path: Path) -> None:
    (folder := tmp_path / "copy").mkdir()
    FolderDownloader(Named(*HOSTILE, "good"), folder).update()
    assert _written(tmp_path) == ["copy/good"]


@pytest.mark.parametrize("text", ["gs://b/..", "s3://b/a/../c", "minio://../a", "gs://b/./a"])
def test_parse_bucket_uri_with_dot_parts_is_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^uri: must not contain the part \. or \.\. in a bucket\."):
        parse_bucket_uri(text)
