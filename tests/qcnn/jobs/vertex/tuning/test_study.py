"""A search as Vertex AI's tuner takes it."""

from typing import Any

import pytest
from google.cloud import aiplatform_v1 as v1

from qcnn.jobs.vertex.tuning.rules import DECAY_CURVE, MEDIAN, NONE
from qcnn.jobs.vertex.tuning.study import Bounds, Study, Values, study_spec


def _spec(*parameters: Values | Bounds, stopping: str = NONE, best_report: bool = False) -> dict[str, Any]:
    study = Study(parameters, "val_loss", 5, parallel=2, stopping=stopping, best_report=best_report)
    found: dict[str, Any] = v1.StudySpec.to_dict(study_spec(study), including_default_value_fields=False)
    return found


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            Bounds("learning_rate", 1e-4, 0.1, whole=False, by_logarithm=True),
            {"double_value_spec": {"min_value": 1e-4, "max_value": 0.1}, "scale_type": 2},
        ),
        (
            Bounds("hidden_units", 2, 16, whole=True, by_logarithm=False),
            {"integer_value_spec": {"min_value": "2", "max_value": "16"}, "scale_type": 1},
        ),
        (Values("hidden_units", [16, 4, 4]), {"discrete_value_spec": {"values": [4.0, 16.0]}}),
        (Values("model", ["hybrid", "deep"]), {"categorical_value_spec": {"values": ["hybrid", "deep"]}}),
        (Values("rounds", ["auto", 40]), {"categorical_value_spec": {"values": ["auto", "40"]}}),
    ],
)
def test_every_way_to_search_a_word_has_a_counterpart(given: Values | Bounds, expected: dict[str, Any]) -> None:
    assert _spec(given)["parameters"] == [{"parameter_id": given.name, **expected}]


def test_the_lowest_metric_is_searched_and_a_rule_may_end_trials() -> None:
    choice = Values("model", ["hybrid", "deep"])
    found = _spec(choice)
    assert found["metrics"] == [{"metric_id": "val_loss", "goal": v1.StudySpec.MetricSpec.GoalType.MINIMIZE}]
    assert found["measurement_selection_type"] == v1.StudySpec.MeasurementSelectionType.LAST_MEASUREMENT
    best = _spec(choice, best_report=True)["measurement_selection_type"]
    assert best == v1.StudySpec.MeasurementSelectionType.BEST_MEASUREMENT
    rules = {"median_automated_stopping_spec", "decay_curve_stopping_spec"}
    assert not rules & found.keys()
    assert rules & _spec(choice, stopping=MEDIAN).keys() == {"median_automated_stopping_spec"}
    assert rules & _spec(choice, stopping=DECAY_CURVE).keys() == {"decay_curve_stopping_spec"}
