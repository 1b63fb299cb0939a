"""Contract tests of simulators, stores and targets, for pytest.

A package subclasses a contract in its tests, as `TestMine`, and overrides its fixtures.
"""
