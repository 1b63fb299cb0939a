"""A local folder that follows one in a bucket."""

from collections.abc import Callable
from pathlib import Path

from qcnn.trainer.storage.interface import Store
from qcnn.trainer.storage.live_copies import Follower


def _put(store: Store, folder: Path, name: str, content: bytes) -> None:
    (folder / "content").write_bytes(content)
    store.write(folder / "content", name)


def test_what_grows_gets_the_rest_what_is_another_is_replaced(
    opens: Callable[[str], Store], bucket: str, tmp_path: Path
) -> None:
    store = opens(f"{bucket}/logs")
    follower = Follower(store, tmp_path / "here")
    follower.update()
    _put(store, tmp_path, "train/events", b"one")
    _put(store, tmp_path, "other", b"one")
    follower.update()
    path = tmp_path / "here" / "train" / "events"
    assert path.read_bytes() == b"one"
    with path.open("rb") as reader:
        assert reader.read() == b"one"
        _put(store, tmp_path, "train/events", b"one, two")
        _put(store, tmp_path, "other", b"two")
        follower.update()
        # Whoever has the file open goes on in it.
        assert reader.read() == b", two"
    assert (tmp_path / "here" / "other").read_bytes() == b"two"
    store.delete("other")
    follower.update()
    assert (tmp_path / "here" / "other").read_bytes() == b"two"


def test_files_lie_where_they_are_placed_and_never_outside(
    opens: Callable[[str], Store], bucket: str, tmp_path: Path
) -> None:
    store = opens(bucket)
    for name in ("a/logs/x", "b/y", "logs/", "../../out"):
        _put(store, tmp_path, name, b"text")
    Follower(store, tmp_path / "here").update()
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert found - {"content"} == {"here/a/logs/x", "here/b/y"}
    Follower(store, tmp_path / "there", lambda name: f"run/{name}" if "/logs/" in name else None).update()
    assert [path.name for path in (tmp_path / "there").rglob("*") if path.is_file()] == ["x"]


def test_only_what_has_changed_is_read_again(opens: Callable[[str], Store], bucket: str, tmp_path: Path) -> None:
    store = opens(bucket)
    _put(store, tmp_path, "same", b"text")
    follower = Follower(store, tmp_path / "here")
    follower.update()
    (tmp_path / "here" / "same").unlink()
    follower.update()
    assert not (tmp_path / "here" / "same").exists()
