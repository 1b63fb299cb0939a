"""Which names of runs a person can tell apart."""

import pytest

from qcnn.jobs.naming import check_run
from qcnn.trainer.errors import ConfigError


@pytest.mark.parametrize("run", ["", " ", "a\nb", " a", "a\t", "a" * 201, "\udc80"])
def test_a_name_that_nobody_could_tell_from_others_is_refused(run: str) -> None:
    with pytest.raises(ConfigError, match=r"^run: must be a name of 1 to 200 printable characters, .* Given: '.*'$"):
        check_run(run)


@pytest.mark.parametrize("run", ["a", "量子", "exp 1", "a" * 200, "gs://bucket/a"])
def test_any_other_name_is_a_run(run: str) -> None:
    assert check_run(run) == run
