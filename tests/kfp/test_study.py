"""Study in KFP: parallel trials, and evaluation of the best."""

import json

from tests.kfp.conftest import SMALL, Kubeflow


def test_study_with_failed_trials_evaluates_best(kubeflow: Kubeflow) -> None:
    search = ("--grid", "learning_rate=0.02,1e200", "--grid", "hidden_activation=linear,relu")
    flags = ("--seed", str(kubeflow.seed), "--parallelism", "2", "--wait")
    run, done = kubeflow.submit("study", *search, *SMALL, *flags, command="study")
    assert done.returncode == 0, done.stdout + done.stderr
    artifacts = kubeflow.artifacts(run)
    experiments = [
        json.loads(artifact.metadata["experiment"]) for artifact in artifacts if artifact.type == "system.Dataset"
    ]
    assert sorted(experiment["seed"] for experiment in experiments) == [kubeflow.seed + trial for trial in range(4)]
    assert {(each["learning_rate"], each["hidden_activation"]) for each in experiments} == {
        (rate, activation) for rate in (0.02, 1e200) for activation in ("linear", "relu")
    }
    (model,) = [artifact for artifact in artifacts if artifact.type == "system.Model"]
    row = kubeflow.rows()["study"]
    assert row["state"] == "succeeded"
    assert row["mse"] > 0
    assert row["val_loss"] == round(float(model.metadata["val_loss"]), 6)
    assert json.loads(model.metadata["experiment"])["learning_rate"] == 0.02
    (results,) = [artifact for artifact in artifacts if artifact.metadata["display_name"] == "results"]
    assert results.uri.endswith(".csv")
    assert results.metadata["trials"] == 4
