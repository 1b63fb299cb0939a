"""Published values of study files."""

import math
from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.studies.published_values import parse_published

VALUE: dict[str, Any] = {"value": 0.984, "source": "arXiv:2108.00661, table 2"}


@pytest.mark.parametrize(
    ("spread", "expected"),
    [
        ({"spread": 0.006, "spread_is": "std", "runs": 4}, 0.003),
        ({"spread": 0.006, "spread_is": "sem", "runs": 4}, 0.006),
        ({"runs": 4}, None),
        ({}, None),
    ],
)
def test_standard_error_of_published_mean(spread: dict[str, Any], expected: float | None) -> None:
    published = parse_published({**VALUE, **spread})
    assert published.error == expected
    assert parse_published(published.to_mapping()) == published


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("98 %", "published: must be a mapping with any of value, source, metric, spread, spread_is, runs, rows. "),
        ({**VALUE, "mean": 1}, "published: must be a mapping with any of value, source, metric, spread, "),
        ({"source": "a"}, "published: must have value. Given: {'source': 'a'}"),
        ({"value": 0.9}, "published: must have source. Given: {'value': 0.9}"),
        ({**VALUE, "value": "98 %"}, "published: value must be a number. Given: '98 %'"),
        ({**VALUE, "value": True}, "published: value must be a number. Given: True"),
        ({**VALUE, "value": math.nan}, "published: value must be a number. Given: nan"),
        ({**VALUE, "value": 98.4}, "published: an accuracy must be a fraction, 0 to 1. Given: 98.4"),
        ({**VALUE, "spread": -1, "spread_is": "std", "runs": 5}, "published: spread must be 0 or more. Given: -1"),
        ({**VALUE, "spread": 0.1}, "published: must have both spread and spread_is, or neither. Given: "),
        ({**VALUE, "spread": 0.1, "spread_is": "std"}, "published: runs must be 2 or more with a spread. Given: "),
        ({**VALUE, "spread_is": "sd"}, "published: spread_is must be one of std, sem. Given: 'sd'"),
        ({**VALUE, "metric": "f1"}, "published: metric must be one of accuracy, balanced_accuracy, loss, mse, "),
        ({**VALUE, "runs": 2.5}, "published: runs must be a whole number, 1 to 1000000000. Given: 2.5"),
        ({**VALUE, "rows": 10**10}, "published: rows must be a whole number, 1 to 1000000000. Given: 10000000000"),
        ({**VALUE, "source": ""}, "published: source must be a text of 1 to 1000 characters. Given: "),
    ],
)
def test_invalid_published_value_is_one_line(given: Any, line: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_published(given)
    assert str(raised.value).startswith(line)
