from pathlib import Path

import pytest

from trainer.errors import ArtifactError
from trainer.training.history import Epoch, load_history, save_history

HISTORY = (Epoch(1, 1 / 3, 0.5, 0.1, 0.25, 1e-3), Epoch(2, 1e-17, 1.0, 2 / 3, 0.75, 12.5))


def test_what_is_read_is_what_was_written_to_the_last_bit(tmp_path: Path) -> None:
    save_history(HISTORY, tmp_path / "history.csv")
    assert load_history(tmp_path / "history.csv") == HISTORY


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "history.csv is missing"),
        ("", "history.csv holds no epoch"),
        ("epoch,train_loss\n1,0.5\n", "history.csv is damaged"),
        ("epoch,train_loss,train_accuracy,val_loss,val_accuracy,seconds\n1,0.5,0.5", "history.csv is damaged"),
        ("epoch,train_loss,train_accuracy,val_loss,val_accuracy,seconds\n1,a,b,c,d,e\n", "history.csv is damaged"),
    ],
)
def test_refuses_a_file_that_is_not_whole(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "history.csv").write_text(content)
    with pytest.raises(ArtifactError, match=rf"^training: {message}.* Given: "):
        load_history(tmp_path / "history.csv")
