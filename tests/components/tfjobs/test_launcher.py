"""What launchers are made of; tests/cluster has them at work."""

import subprocess
import sys


def test_a_launcher_loads_nothing_that_trains() -> None:
    program = """
import sys
import components.train.tfjobs.launcher
print([name for name in ("tensorflow", "cirq", "matplotlib", "kfp") if name in sys.modules])
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout == "[]\n"
