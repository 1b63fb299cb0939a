"""Models whose predictions differ, for tests of versions."""

import json
import shutil
from pathlib import Path

from qcnn.artifact_io import FILES, load_description, save_description
from qcnn.results.model_folder import FILE, PREDICTOR
from tests.qcnn.serving.conftest import EXCITATIONS


def write_other_model(folder: Path, factor: float = 0.5) -> Path:
    """Write the model of excitations with predictions that are multiplied by a factor, except its SavedModel."""
    shutil.copytree(EXCITATIONS, folder)
    path = folder / PREDICTOR
    content = json.loads(path.read_text())
    kernel, bias, _ = content["table"]["layers"][-1]
    kernel[:] = [[factor * weight for weight in row] for row in kernel]
    bias[:] = [factor * weight for weight in bias]
    path.write_text(json.dumps(content))
    description = load_description("model", folder / FILE)
    save_description(description, folder / FILE, description[FILES])
    return folder
