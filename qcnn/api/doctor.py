"""Checks of a target from Python."""

from collections.abc import Sequence
from typing import Any

from qcnn.process.extras import translate_errors
from qcnn.targets import target_class
from qcnn.targets.base import IsChecked
from qcnn.targets.checks import Finding, run_checks
from qcnn.targets.settings import settings_from


def doctor(target: str = "local", **settings: Any) -> Sequence[Finding]:
    """Check whether a target is ready for training, like `qcnn doctor`.

    Args:
        target: Name of the target.
        settings: Settings of its checks, such as namespace, image and output.

    Raises:
        ConfigError: If no target has this name, or a setting is invalid.

    >>> import qcnn
    >>> {finding.check: finding.state for finding in qcnn.doctor()}["Python"]
    'passed'
    """
    kind = target_class(target, IsChecked)
    given = settings_from(kind.check_settings, settings, target)
    with translate_errors("qcnn.doctor", kind.extra), kind(given) as opened:
        return tuple(run_checks(opened.checks(given)))
