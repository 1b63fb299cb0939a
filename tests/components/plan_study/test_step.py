"""The first step of a study."""

import pytest

from components.plan_study.step import plan_study
from tests.components.conftest import refused_line


def test_a_study_is_refused_before_its_trials_begin_where_a_circuit_cannot_be_built(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as stopped:
        plan_study({}, {"model": ["hybrid", "tests.no_such:f"]}, {}, 0)
    assert stopped.value.code == 2
    assert refused_line(capfd).startswith("error: model: cannot be imported")
