"""What launchers are made of; tests/cluster has them at work."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("step", ["components.train.tfjob.step", "components.tensorboard.step"])
def test_steps_that_do_not_train_load_nothing_that_does(step: str) -> None:
    program = f"""
import sys
import {step}
print([name for name in ("tensorflow", "cirq", "matplotlib", "kfp") if name in sys.modules])
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout == "[]\n"
