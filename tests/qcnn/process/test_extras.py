"""Messages for missing libraries, compared with the extras of pyproject.toml."""

import importlib.metadata
import importlib.util
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from qcnn.process.extras import LIBRARIES, check, missing
from qcnn.process.installation import DISTRIBUTION
from tests.minimal_environment import distributions, modules
from tests.test_lock import PACKAGES

ROOT = Path(__file__).parents[3]
EXTRAS = ("kubeflow", "vertex", "serve", "run")


# Libraries that an extra installs only as dependencies of other libraries.
INDIRECT: dict[str, tuple[str, ...]] = {"vertex": ("grpc",)}


@pytest.mark.parametrize("extra", EXTRAS)
def test_extra_installs_listed_libraries(extra: str) -> None:
    added = modules(distributions(extra)) - modules(distributions())
    installed = {library for library in LIBRARIES if library in added}
    listed = {library for library, described in LIBRARIES.items() if extra in described.extras}
    assert installed - listed <= set(INDIRECT.get(extra, ()))
    assert listed <= installed


def test_extra_gpu_is_cuda_extra_of_tensorflow() -> None:
    """The extra names the packages, because tensorflow[and-cuda] would conflict with dependency groups."""
    locked = max(name[1] for name in PACKAGES if name[0] == "tensorflow")
    if importlib.metadata.version("tensorflow") != locked:
        pytest.skip("the extra is that of the locked release")

    def pins(package: str, extra: str) -> dict[str, str]:
        required = map(Requirement, importlib.metadata.requires(package) or ())
        chosen = [each for each in required if each.marker and f'extra == "{extra}"' in str(each.marker)]
        return {each.name: str(each.specifier) for each in chosen}

    assert pins(DISTRIBUTION, "gpu") == pins("tensorflow", "and-cuda")
    assert "nvidia-cuda-nvcc-cu12" in pins(DISTRIBUTION, "gpu")


def test_missing_names_extra_of_target_if_it_has_library() -> None:
    error = ModuleNotFoundError(name="kfp.dsl")
    given = "Given: kfp is not installed"
    assert missing(error, "qcnn submit", "vertex") == (
        f'qcnn submit needs Kubeflow\'s SDK: pip install "qcnn-pipelines[vertex]". {given}'
    )
    assert missing(error, "qcnn submit", "serve") == (
        f'qcnn submit needs Kubeflow\'s SDK: pip install "qcnn-pipelines[kubeflow]". {given}'
    )


def test_missing_other_module_returns_none() -> None:
    assert missing(ModuleNotFoundError(name="my_circuits"), "qcnn run") is None
    assert missing(ModuleNotFoundError("no name"), "qcnn run") is None


def test_missing_google_package_names_extra() -> None:
    """Python then reports the missing namespace package google for any of the libraries."""
    error, given = ModuleNotFoundError(name="google"), "Given: google is not installed"
    for command, extra in (("status --target vertex", "vertex"), ("run", "run")):
        expected = f'qcnn {command} needs Google\'s libraries: pip install "qcnn-pipelines[{extra}]". {given}'
        assert missing(error, f"qcnn {command}", extra) == expected
    assert missing(error, "qcnn.load", "serve") == (
        f'qcnn.load needs Google\'s libraries: pip install "qcnn-pipelines[run]". {given}'
    )


def test_kubernetes_requirement_excludes_unsupported_releases() -> None:
    """Extras limit the version, but without extras pip would install the latest release."""
    dependencies = (ROOT / "pyproject.toml").read_text().partition("dependencies = [")[2].partition("\n]")[0]
    (allowed,) = (Requirement(each) for each in re.findall(r'"(.*)"', dependencies) if each.startswith("kubernetes"))
    assert {"30.1.0", "36.0.3"} == {
        release for release in ("30.1.0", "36.0.3", "37.0.0") if release in allowed.specifier
    }


def test_training_needs_no_library_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra tfq does not install them."""
    find = importlib.util.find_spec
    absent = {"uvicorn", "httptools", "uvloop"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in absent else find(name))
    check("run")
    absent.add("matplotlib")
    with pytest.raises(ModuleNotFoundError) as caught:
        check("run")
    assert caught.value.name == "matplotlib"
