"""What is said of a library that is not installed, beside what pyproject.toml installs."""

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from qcnn.extras import LIBRARIES, missing
from tests.base_only import distributions, modules

ROOT = Path(__file__).parents[2]
EXTRAS = ("kubeflow", "vertex", "serve", "run")


# What a library of the extra brings without being asked.
BY_CHANCE = {"serve": ("h5py", "tensorboard", "google.protobuf")}


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_the_libraries_that_are_said_to_come_with_it(extra: str) -> None:
    added = modules(distributions(extra)) - modules(distributions())
    brought = {library for library in LIBRARIES if library in added}
    said = {library for library, described in LIBRARIES.items() if extra in described.extras}
    assert brought - said <= set(BY_CHANCE.get(extra, ()))
    assert said <= brought


def test_the_extra_of_a_target_is_named_where_it_has_the_library() -> None:
    error = ModuleNotFoundError(name="kfp.dsl")
    given = "Given: kfp is not installed"
    assert missing(error, "qcnn submit", "vertex") == (
        f'qcnn submit needs Kubeflow\'s SDK: pip install "qcnn[vertex]". {given}'
    )
    assert missing(error, "qcnn submit", "serve") == (
        f'qcnn submit needs Kubeflow\'s SDK: pip install "qcnn[kubeflow]". {given}'
    )


def test_of_a_module_that_is_no_library_of_an_extra_nothing_is_said() -> None:
    assert missing(ModuleNotFoundError(name="my_circuits"), "qcnn run") is None
    assert missing(ModuleNotFoundError("no name"), "qcnn run") is None


def test_where_nothing_of_google_is_installed_the_extra_is_named_too() -> None:
    """Python then misses the folder that its libraries share, whichever of them is imported."""
    error, given = ModuleNotFoundError(name="google"), "Given: google is not installed"
    for command, extra in (("status --target vertex", "vertex"), ("run", "run")):
        expected = f'qcnn {command} needs Google\'s libraries: pip install "qcnn[{extra}]". {given}'
        assert missing(error, f"qcnn {command}", extra) == expected
    assert missing(error, "qcnn.load", "serve") == (
        f'qcnn.load needs Google\'s libraries: pip install "qcnn[run]". {given}'
    )


def test_the_client_of_kubernetes_is_installed_in_no_release_with_another_interface() -> None:
    """Extras hold it back, so where none is installed pip alone would take the newest."""
    dependencies = (ROOT / "pyproject.toml").read_text().partition("dependencies = [")[2].partition("\n]")[0]
    (allowed,) = (Requirement(each) for each in re.findall(r'"(.*)"', dependencies) if each.startswith("kubernetes"))
    assert {"30.1.0", "36.0.3"} == {
        release for release in ("30.1.0", "36.0.3", "37.0.0") if release in allowed.specifier
    }
