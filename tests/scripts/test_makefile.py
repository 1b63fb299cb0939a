"""What make's targets run, as make itself says."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ONE = "tests/cluster/test_api.py::test_only_the_object_that_is_meant_is_deleted"


FAULTS = " ".join(f"tests/components/train/local/test_faults{of}.py" for of in ("", "_of_roles"))


@pytest.mark.parametrize(
    ("target", "arguments", "run"),
    [
        ("test-cluster", "", "-m cluster tests/cluster"),
        ("test-cluster", ONE, f"-m cluster {ONE}"),
        ("test-cluster", f"{ONE} -x", f"-m cluster {ONE} -x"),
        ("test-cluster", "-k deleted", "-m cluster tests/cluster -k deleted"),
        ("test-kfp", "tests/kfp/test_runs.py", "-m kfp tests/kfp/test_runs.py"),
        ("test-faults", "-k torn", f'-m "faults or not faults" {FAULTS} -k torn'),
        ("test-long", "tests/trainer", '-m "long and not faults" tests/trainer'),
        ("test", "tests/trainer -k order", "tests/trainer -k order"),
    ],
)
def test_arguments_with_a_path_narrow_what_a_target_runs(target: str, arguments: str, run: str) -> None:
    # What the make that runs these tests was told is not for this one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "ARGS"}
    command = ["make", "--dry-run", "--no-print-directory", target, f"ARGS={arguments}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert " ".join(done.stdout.splitlines()[-1].split()) == f".venv/bin/pytest {run}"
