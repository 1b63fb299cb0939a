"""Tests of scripts/release_files.py."""

import sys
import types
import zipfile
from pathlib import Path

import pytest

from tests.scripts_as_modules import load_script

ROOT = Path(__file__).parents[2]
# Lines of auditwheel show, which breaks lines at 80 characters.
REPORT = """
qcnn_pipelines-0.1.0-py3-none-manylinux_2_17_x86_64.whl is consistent
with the following platform
tag: "{tag}".
"""
TAG = "manylinux_2_17_x86_64"


@pytest.fixture(scope="module")
def script() -> types.ModuleType:
    """Return the script as a module."""
    return load_script(ROOT / "scripts" / "release_files.py")


@pytest.mark.parametrize("needed", ["manylinux_2_17_x86_64", "manylinux_2_5_x86_64"])
def test_library_for_glibc_of_tag_or_earlier_is_accepted(script: types.ModuleType, needed: str) -> None:
    script.check_symbols(TAG, REPORT.format(tag=needed))


@pytest.mark.parametrize("needed", ["manylinux_2_34_x86_64", "linux_x86_64"])
def test_library_for_later_glibc_is_rejected(script: types.ModuleType, needed: str) -> None:
    with pytest.raises(script.CheckError, match=rf"^{TAG}: must be .*\. Given: {needed}$"):
        script.check_symbols(TAG, REPORT.format(tag=needed))


def test_report_without_tag_is_rejected(script: types.ModuleType) -> None:
    with pytest.raises(script.CheckError, match="Given: none"):
        script.check_symbols(TAG, "This does not look like a platform wheel")


@pytest.mark.parametrize(
    ("tag", "names", "is_accepted"),
    [
        (TAG, ["statevector.so"], True),
        ("any", ["not_compiled.txt"], True),
        (TAG, ["statevector.c"], False),
        ("any", ["statevector.so"], False),
        (TAG, ["statevector.so", "not_compiled.txt"], False),
    ],
)
def test_wheel_has_library_or_reason(
    script: types.ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tag: str,
    names: list[str],
    is_accepted: bool,
) -> None:
    wheel = tmp_path / f"qcnn_pipelines-0.1.0-py3-none-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as content:
        for name in names:
            content.writestr(f"qcnn/simulators/kernels/{name}", "")
    # twine and auditwheel are installed in another environment.
    monkeypatch.setattr(script, "run", lambda *arguments: REPORT.format(tag=TAG))
    if is_accepted:
        script.check_files({tag: wheel})
    else:
        with pytest.raises(script.CheckError, match=rf"^{wheel.name}: must have a library or the reason\. Given: "):
            script.check_files({tag: wheel})


@pytest.mark.parametrize(
    ("system", "machine", "tag"),
    [
        ("linux", "x86_64", "manylinux_2_17_x86_64"),
        ("linux", "aarch64", "manylinux_2_17_aarch64"),
        ("linux", "ppc64le", "any"),
        ("darwin", "arm64", "any"),
        ("darwin", "x86_64", "any"),
    ],
)
def test_wheel_of_this_machine(
    script: types.ModuleType, monkeypatch: pytest.MonkeyPatch, system: str, machine: str, tag: str
) -> None:
    monkeypatch.setattr(script.sys, "platform", system)
    monkeypatch.setattr(script.platform, "machine", lambda: machine)
    assert script.of_this_machine({each: Path(each) for each in script.PLATFORMS}) == Path(tag)


def test_run_must_print_results_of_readme(script: types.ModuleType) -> None:
    readme = (ROOT / "README.md").read_text()
    results = dict(script._RESULT.findall(readme))
    assert list(results) == ["train loss", "validation loss", "test MSE", "fresh MSE", "sign accuracy"]
    output = "== evaluate\n" + "".join(f"{name:<19}{value}\n" for name, value in results.items())
    script.check_results(readme, output)
    for wrong in (output.replace(results["fresh MSE"], "0.5"), output.replace("train loss", "loss"), ""):
        with pytest.raises(script.CheckError, match=r"^qcnn run: must print the results of README\.md"):
            script.check_results(readme, wrong)


def test_run_failing_command_prints_output_and_raises(
    script: types.ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program = "import sys; print('first'); sys.exit('error: no libraries')"
    with pytest.raises(script.CheckError, match=r"must succeed\. Given: exit code 1, error: no libraries$"):
        script.run([sys.executable, "-c", program], tmp_path)
    assert capsys.readouterr().err == "first\nerror: no libraries\n"
