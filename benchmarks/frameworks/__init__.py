"""What benchmarks.simulators compares with, one module a peer: python -m benchmarks.frameworks.NAME hybrid 8.

Each is a process of its own, builds the same network, trains it on the same batches from the same weights, and
prints one JSON line. tensorcircuit and lightning run in .venv-peers, which `make peers` makes; tutorial and ours in
.venv. `python -m benchmarks.frameworks.check` compares what they compute with cirq. Those whose names end in `to_floor`
train whole networks for benchmarks.time_to_bound and leave their epochs in a file (benchmarks.frameworks.trace).
"""

import os

# TensorFlow Quantum 0.7 builds on Keras 2, which TensorFlow provides only if this is set before its import.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
