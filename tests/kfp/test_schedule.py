"""Schedules: creation, recurring runs, and deletion."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from qcnn.targets.artifacts import Artifact
from qcnn.targets.kubeflow.runs import ENDED, find_experiment, find_schedule, pages
from tests.kfp.conftest import SMALL, Kubeflow, until

COMPILE = Path(__file__).parents[2] / "compile.py"
SMALL_FIELDS = {"qubits": 4, "rounds": 12, "batch_size": 8, "epochs": 3, "workers": 1, "strategy": "none"}


def test_scheduled_runs_have_distinct_names_seeds_and_outputs(kubeflow: Kubeflow) -> None:
    name = kubeflow.unique("every-minute")
    create = ("schedule", "create", "--interval", "60s", "--max-concurrency", "2", "--run-name", name)
    done = kubeflow.run_command(*create, *kubeflow.submit_flags, *SMALL)
    assert done.returncode == 0, done.stderr
    client = kubeflow.backend.client
    schedule = find_schedule(kubeflow.backend, name)
    assert schedule.status == "ENABLED"
    identity = find_experiment(kubeflow.backend, kubeflow.experiment).experiment_id

    def dataset_uris() -> dict[str, str]:
        """Return the URIs of the datasets of runs by run name."""
        runs = [run for run in pages(client.list_runs, "runs", experiment_id=identity) if _is_of(run, schedule)]
        return {
            run.display_name: artifact.uri
            for run in runs
            for artifact in kubeflow.artifacts(run.run_id)
            if artifact.type == "system.Dataset"
        }

    datasets = until(dataset_uris, lambda found: len(found) >= 2)
    assert kubeflow.run_command("schedule", "disable", name).returncode == 0
    assert find_schedule(kubeflow.backend, name).status == "DISABLED"
    listed = [line.split() for line in kubeflow.run_command("schedule", "list").stdout.splitlines()]
    assert [name, schedule.recurring_run_id, "every", "60", "s", "disabled", "2", "no"] in listed
    assert len(set(datasets.values())) == len(datasets)
    rows = kubeflow.rows()
    seeds = {rows[run]["seed"] for run in datasets}
    assert len(seeds - {0}) == len(datasets)
    assert kubeflow.run_command("schedule", "delete", name).returncode == 0
    assert name not in kubeflow.run_command("schedule", "list").stdout
    left = [run for run in pages(client.list_runs, "runs", experiment_id=identity) if _is_of(run, schedule)]
    assert {run.state for run in left} <= set(ENDED)


def test_runs_with_seed_per_run_are_not_cached(kubeflow: Kubeflow, tmp_path: Path) -> None:
    command = (sys.executable, "-W", "ignore", str(COMPILE), "--seed-per-run", "--image", kubeflow.image)
    subprocess.run([*command, "--output", str(tmp_path)], check=True)
    client, fields = kubeflow.backend.client, {**SMALL_FIELDS, "seed": kubeflow.seed}
    # Like the KFP UI, with equal parameters for each run.
    runs = [
        client.create_run_from_pipeline_package(
            str(tmp_path / "qcnn-kubeflow.yaml"),
            arguments=fields,
            run_name=kubeflow.unique(f"seeded-{number}"),
            experiment_name=kubeflow.experiment,
        ).run_id
        for number in range(2)
    ]

    def datasets(run: str) -> list[Artifact]:
        return [artifact for artifact in kubeflow.artifacts(run) if artifact.type == "system.Dataset"]

    first, second = (until(lambda run=run: datasets(run), bool)[0] for run in runs)  # type: ignore[misc]
    for run in runs:
        assert kubeflow.run_command("terminate", run).returncode == 0
    assert first.uri != second.uri
    seeds = {json.loads(artifact.metadata["experiment"])["seed"] for artifact in (first, second)}
    assert len(seeds - {kubeflow.seed}) == 2


def _is_of(run: Any, schedule: Any) -> bool:
    return bool(run.recurring_run_id == schedule.recurring_run_id)
