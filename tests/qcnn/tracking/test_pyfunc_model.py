from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import qcnn
from qcnn.errors import ConfigError
from qcnn.tracking import pyfunc_model

GOLDEN = Path(__file__).parents[2] / "golden" / "0.1.0-predictor"
MODELS = [path.parent for path in sorted(GOLDEN.rglob("model.json"))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("folder", MODELS, ids=lambda folder: str(folder.relative_to(GOLDEN)))
def test_pyfunc_predicts_rows_like_load(folder: Path) -> None:
    model = qcnn.load(folder)
    rows = pd.DataFrame({name: np.linspace(0, 1, 4) for name in model.columns}).assign(other="text")
    if "qubit" in rows:
        rows["qubit"] = [0, 1, 2, 3]
    predicted = pyfunc_model._load_pyfunc(str(folder)).predict(rows)
    signature = pyfunc_model.signature_of(folder)
    assert signature.inputs.input_names() == [*model.columns]
    assert signature.outputs.input_names() == [*predicted.columns]
    expected = model.predict(rows)
    if model.classes:
        assert np.array_equal(predicted[[f"probability_{name}" for name in model.classes]].to_numpy(), expected)
        assert [*predicted["prediction"]] == [model.classes[number] for number in expected.argmax(axis=1)]
    else:
        assert np.array_equal(predicted["prediction"].to_numpy(), expected)


def test_invalid_row_is_an_error() -> None:
    model = pyfunc_model._load_pyfunc(str(MODELS[0]))
    with pytest.raises(ConfigError, match=r"^qubit: row 2 "):
        model.predict(pd.DataFrame({"qubit": [0, 400], "angle": [0.1, 0.2]}))
