"""Contract of targets: settings that describe themselves, and jobs that are prepared without requests."""

import json
import socket
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

from qcnn.errors import ConfigError
from qcnn.experiment.parsing import from_mapping
from qcnn.targets import target_class
from qcnn.targets.base import Prepared, Submits
from qcnn.targets.settings import describe_settings, settings_from

_SECRET = "a-secret-of-this-test"


class TargetContract:
    """Tests of a target of this package or of an installed plug-in. The fixture `target` is its name."""

    @pytest.fixture
    def target(self) -> str:
        """Name of the target, which a subclass returns."""
        raise NotImplementedError

    @pytest.fixture
    def settings(self) -> Mapping[str, Any]:
        """Settings with which a job can be prepared. A subclass returns at least the required ones."""
        return {}

    def prepare(self, target: str, settings: Mapping[str, Any]) -> Prepared:
        """Return the prepared job of a small experiment."""
        submits = target_class(target, Submits)
        given = settings_from(submits.submit_settings, settings, target)
        with submits(given) as bound:
            return bound.prepare(from_mapping({"qubits": 4}), given)

    def test_target_and_settings_describe_themselves(self, target: str) -> None:
        """Check the texts of help pages and messages."""
        submits = target_class(target, Submits)
        assert submits.name == target
        assert submits.title
        assert submits.job_kind
        assert submits.notes.endswith(".")
        known = {field.name: field for field in describe_settings(submits.submit_settings)}
        assert {field.name for field in describe_settings(submits.connection_settings)} < known.keys()
        assert all(field.setting.help.endswith(".") for field in known.values())

    def test_unknown_setting_is_one_clear_error(self, target: str, settings: Mapping[str, Any]) -> None:
        """Give a setting that no target has."""
        with pytest.raises(ConfigError, match=rf"^colour: unknown setting of target {target}; .* Given: 'blue'$"):
            self.prepare(target, {**settings, "colour": "blue"})

    def test_prepare_sends_nothing(
        self, target: str, settings: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Prepare a job and its requests without network and other programs."""

        def send(*_: object, **__: object) -> None:
            raise AssertionError("something was sent")

        for owner, name in ((socket.socket, "connect"), (socket, "getaddrinfo"), (subprocess.Popen, "__init__")):
            monkeypatch.setattr(owner, name, send)
        prepared = self.prepare(target, settings)
        assert json.dumps(list(prepared.requests()))
        assert prepared.trials

    def test_requests_contain_no_secrets(self, target: str, settings: Mapping[str, Any]) -> None:
        """Give each secret setting."""
        described = describe_settings(target_class(target, Submits).submit_settings)
        secrets = {field.name: f"NAME={_SECRET}" for field in described if field.is_secret}
        prepared = self.prepare(target, {**settings, **secrets})
        assert _SECRET not in json.dumps(list(prepared.requests()))
        assert _SECRET not in repr(prepared)
