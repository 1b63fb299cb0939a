"""Options of datasets: texts and numbers, and one line for invalid ones."""

from typing import Any

import numpy as np
import pytest

from qcnn.datasets.options import DatasetOptions, parse_options
from qcnn.errors import ConfigError

DIGITS = ", ".join(map(str, range(10)))


def test_texts_and_numbers_give_equal_options() -> None:
    typed = parse_options("digits", classes="3, 8", resize="4x2", pca=2, source=None)
    called = parse_options("digits", classes=np.array([3, 8]), resize=(4, 2), pca=np.int64(2))
    assert typed == called == DatasetOptions("digits", classes=(3, 8), resize=(4, 2), pca=2)
    assert typed.describe() == {"classes": "3,8", "resize": "4x2", "pca": 2, "validation": 0.2, "seed": 0}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "letters",
            {},
            "name: must be one of digits, mnist, fashion_mnist, lines, bars_and_stripes, moons, circles, annni, "
            "cluster_ising, bond_alternating_xxz. "
            "Given: 'letters'",
        ),
        ("mnist", {}, "source: must be the folder of the four IDX files of mnist. Given: none"),
        ("digits", {"source": "folder"}, "source: must not be set with digits. Given: folder"),
        ("digits", {"noise": 0.0}, "noise: must not be set with digits. Given: 0.0"),
        ("lines", {"size": 4}, "size: must not be set with lines. Given: 4"),
        ("moons", {"resize": "2x2"}, "resize: must not be set with moons. Given: (2, 2)"),
        ("digits", {"classes": "0,11"}, f"classes: must be two or more different ones of {DIGITS}. Given: 0,11"),
        ("digits", {"classes": "3"}, f"classes: must be two or more different ones of {DIGITS}. Given: 3"),
        ("digits", {"classes": [3, 3]}, f"classes: must be two or more different ones of {DIGITS}. Given: 3,3"),
        ("digits", {"classes": "a,b"}, "classes: must be numbers of classes with commas between them. Given: 'a,b'"),
        ("digits", {"classes": 3}, "classes: must be numbers of classes with commas between them. Given: 3"),
        ("digits", {"resize": "0x3"}, "resize: must be ROWSxCOLUMNS, each 1 to 1024, such as 16x16. Given: '0x3'"),
        (
            "digits",
            {"resize": (1, 2, 3)},
            "resize: must be ROWSxCOLUMNS, each 1 to 1024, such as 16x16. Given: (1, 2, 3)",
        ),
        ("digits", {"resize": 4}, "resize: must be ROWSxCOLUMNS, each 1 to 1024, such as 16x16. Given: 4"),
        ("digits", {"pca": 0}, "pca: must be a whole number, 1 to 134217728. Given: 0"),
        ("digits", {"pca": True}, "pca: must be a whole number, 1 to 134217728. Given: True"),
        ("digits", {"seed": 2**32}, "seed: must be a whole number, 0 to 4294967295. Given: 4294967296"),
        ("digits", {"validation": float("nan")}, "validation: must be a number, 0 to 1. Given: nan"),
        ("digits", {"balanced": 1}, "balanced: must be true or false. Given: 1"),
        ("moons", {"balanced": True}, "balanced: must not be set with moons. Given: True"),
        ("annni", {"balanced": True}, "balanced: must not be set with annni. Given: True"),
        ("digits", {"validation": "many"}, "validation: must be a number, 0 to 1. Given: 'many'"),
        ("digits", {"scale": "both"}, "scale: must be none, column or all. Given: 'both'"),
        ("bars_and_stripes", {"size": 65}, "size: must be a whole number, 2 to 64. Given: 65"),
        ("moons", {"noise": -1}, "noise: must be a number, 0 to 1e+06. Given: -1"),
        ("digits", {"source": 3}, "source: must be a folder. Given: 3"),
        ("digits", {"qubits": 4}, "qubits: must not be set with digits. Given: 4"),
        ("annni", {"qubits": 17}, "qubits: must be a whole number, 4 to 16. Given: 17"),
        ("annni", {"train_samples": 5}, "train_samples: must not be set with annni. Given: 5"),
        ("annni", {"noise": 0.1}, "noise: must not be set with annni. Given: 0.1"),
        ("annni", {"classes": (0, 3)}, "classes: must be two or more different ones of 0, 1, 2. Given: 0,3"),
        ("bond_alternating_xxz", {"qubits": 5}, "qubits: must be even with bond_alternating_xxz. Given: 5"),
    ],
)
def test_invalid_option_is_one_line(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_options(name, **options)
    assert str(error.value) == message
