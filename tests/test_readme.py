"""What the README promises that code can check."""

import re
from pathlib import Path

import pytest

from trainer.config import EXPERIMENT_FIELDS, OPTION_FIELDS, describe
from trainer.quantum import circuits

README = (Path(__file__).parents[1] / "README.md").read_text()


@pytest.mark.parametrize("name", [*EXPERIMENT_FIELDS, *OPTION_FIELDS])
def test_every_parameter_is_described_as_the_config_does(name: str) -> None:
    field = {**EXPERIMENT_FIELDS, **OPTION_FIELDS}[name]
    assert f"| `{name}` | {field.default} | {describe(field)} |" in README


def test_the_users_own_circuit_works_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (name,) = re.findall(r"--model (\S+:\S+)", README)
    (tmp_path / f"{name.split(':')[0]}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    ansatz = circuits.build(name, 5)
    assert (len(ansatz.symbols), len(ansatz.readouts)) == (10, 2)


def test_links_and_commands_name_what_exists() -> None:
    root = Path(__file__).parents[1]
    for module in re.findall(r"python -m (benchmarks\.\w+)", README):
        assert (root / f"{module.replace('.', '/')}.py").is_file()
    makefile = (root / "Makefile").read_text()
    for target in re.findall(r"(?:^|`)make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
