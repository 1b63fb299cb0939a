"""Models and a server that the tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.qcnn.serving.server_process import ServerProcess, running_server

EXCITATIONS = Path(__file__).parents[2] / "golden" / "0.1.0-predictor" / "excitations" / "export-weights" / "model"
CLASSES = ("ant", "bee", "cat")


@pytest.fixture(scope="session")
def rows_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a model of rows with 4 features."""
    # TensorFlow takes seconds to import.
    from tests.exported_models import write_model_folder
    from tests.qcnn.results.test_predictor import CIRCUITS

    return write_model_folder(CIRCUITS["ry tanh"](), tmp_path_factory.mktemp("rows") / "model")


@pytest.fixture(scope="session")
def classes_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a model of classes with names."""
    from tests.exported_models import write_model_folder
    from tests.qcnn.results.test_predictor import CIRCUITS

    folder = tmp_path_factory.mktemp("classes") / "model"
    return write_model_folder(CIRCUITS["classes dense"](), folder, CLASSES)


@pytest.fixture(scope="session")
def server(rows_model: Path, classes_model: Path) -> Iterator[ServerProcess]:
    """Server of the models `model`, of excitations, `rows` and `classes`, with gRPC and small limits."""
    limits = ("--max-body-mib", "1", "--max-rows", "1000", "--timeout-seconds", "5", "--grpc-port", "0")
    sources = (str(EXCITATIONS), f"rows={rows_model}", f"classes={classes_model}")
    with running_server(*sources, *limits) as running:
        yield running
