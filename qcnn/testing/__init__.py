"""Contract tests of simulators, stores and targets, for pytest.

A package subclasses a contract in its tests, for example as `TestMine`, and overrides its fixtures.
"""

import pytest

# Shows the values of a failed assertion, as in test modules.
pytest.register_assert_rewrite("qcnn.testing.simulators", "qcnn.testing.stores", "qcnn.testing.targets")
