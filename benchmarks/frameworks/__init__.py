"""Frameworks in benchmarks.simulators: python -m benchmarks.frameworks.NAME hybrid 8.

Each module runs in a separate process, builds the same network, and trains it on the same batches from the same
weights. It prints one line of JSON. The modules tensorcircuit and lightning run in .venv-frameworks, which
`make frameworks` creates, tutorial in .venv-tfq (`make setup EXTRA=tfq`) and qcnn_step in .venv.
`python -m benchmarks.frameworks.check` compares their readouts and gradients with Cirq. The modules whose names end in
`to_bound` train for benchmarks.time_to_bound and write their epochs to a file (benchmarks.frameworks.trace).
"""

import os

# TensorFlow Quantum 0.7 builds on Keras 2, which TensorFlow provides only if this is set before its import.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
