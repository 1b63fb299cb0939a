"""Provenance of results in a clone."""

import hashlib
import subprocess
from pathlib import Path

from qcnn.experiment.parsing import from_mapping
from qcnn.provenance import provenance

ROOT = Path(__file__).parents[2]


def test_provenance_records_commit_and_lock_file() -> None:
    found = provenance(from_mapping({}), "statevector")
    assert found["lock_sha256"] == hashlib.sha256((ROOT / "uv.lock").read_bytes()).hexdigest()
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (found["commit"], found["simulator_used"]) == (head.stdout.strip(), "statevector")
