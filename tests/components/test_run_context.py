"""What a step reads of its run from the environment that the backend gives it."""

import pytest

from qcnn.components.run_context import is_retry, run_id


def test_outside_of_a_backend_there_is_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QCNN_RUN", raising=False)
    assert run_id() == ""
    monkeypatch.setenv("QCNN_RUN", "193e3cb6")
    assert run_id() == "193e3cb6"


@pytest.mark.parametrize(("index", "expected"), [(None, False), ("", False), ("0", False), ("1", True), ("x", False)])
def test_the_backends_own_retries_are_counted_from_one(
    monkeypatch: pytest.MonkeyPatch, index: str | None, expected: bool
) -> None:
    monkeypatch.delenv("KFP_RETRY_INDEX", raising=False)
    if index is not None:
        monkeypatch.setenv("KFP_RETRY_INDEX", index)
    assert is_retry() is expected
