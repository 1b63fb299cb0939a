"""qcnn study: a search over an experiment's words, as one job of a target; local_study.py runs it on this machine."""

from __future__ import annotations

from typing import Any

import click

from qcnn.cli.options.cost import Cost, cost_options
from qcnn.cli.options.experiment import Words, experiment_options
from qcnn.cli.options.form import Sending, sending_options
from qcnn.cli.options.search import STUDY_HELP, SearchFlags, read_study, search_options
from qcnn.cli.options.settings import settings_options
from qcnn.cli.submit import Ending, ending_options, send
from qcnn.targets.base import RunsStudies


def study_command(target: RunsStudies) -> click.Command:
    """Return the command of a target, which trains several trials at the same time."""

    @search_options
    @ending_options
    @sending_options(target.requests_are)
    @settings_options(target.study_settings, target.name)
    @cost_options
    @experiment_options
    def study(search: SearchFlags, ending: Ending, sending: Sending, settings: Any, cost: Cost, words: Words) -> None:
        asked = read_study(search, words)
        send(target, target.prepare_study(asked, settings), settings, cost, asked.trials, sending, ending)

    return click.command("study", help=STUDY_HELP)(study)
