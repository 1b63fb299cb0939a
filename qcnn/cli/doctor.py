"""qcnn doctor: whether a target is ready for a training, and what mends it."""

from __future__ import annotations

import dataclasses
import json

import click

from qcnn.cli.options.settings import format_option, settings_options
from qcnn.cli.output import FAILED
from qcnn.targets.base import IsChecked, TargetSettings
from qcnn.targets.checks import Finding, run_checks


def doctor_command(kind: type[IsChecked[TargetSettings]]) -> click.Command:
    """Return the doctor command of a target."""

    @format_option
    @settings_options(kind.check_settings, kind.name)
    def doctor(output_format: str, settings: TargetSettings) -> None:
        with kind(settings) as target:
            checks = target.checks(settings)
            width = max(len(check.name) for check in checks)
            findings: list[Finding] = []
            for finding in run_checks(checks):
                findings.append(finding)
                if output_format == "text":
                    click.echo(f"{finding.state:<8} {finding.check:<{width}}  {finding.found}")
        if output_format == "json":
            click.echo(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2))
        if any(finding.state == "failed" for finding in findings):
            raise SystemExit(FAILED)

    return click.command(
        "doctor",
        help=f"Check whether {kind.title} is ready for a training.\n\nAll checks run side by side. Each prints what it "
        "found and, if it failed, the command or setting that mends it. The exit code is 1 if a check failed. A "
        "training is possible despite a warning. What cannot be found out from here is unknown.",
    )(doctor)
