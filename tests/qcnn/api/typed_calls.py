"""Calls of the Python interface that a type checker accepts, and calls that it rejects.

Each rejected call has a comment with its error. Mypy reports a comment without an error, too.
"""

from typing import Literal, assert_type

import qcnn


def accepted(experiment: qcnn.Experiment) -> None:
    assert_type(experiment.qubits, int)
    assert_type(
        experiment.strategy, Literal["multi_worker", "mirrored", "central_storage", "parameter_server", "tpu", "none"]
    )
    qcnn.Experiment(qubits=4, learning_rate=1, noise={"depolarizing": 0.01}, target_val_loss=0.2, evaluator=True)
    qcnn.Experiment.from_file("experiment.yaml", seed=3).replace(epochs=3, options={"shots": 100})
    assert_type(qcnn.submit(experiment, "tfjob", output="gs://bucket/runs", image="qcnn:1", cpu=2), qcnn.Job)
    qcnn.submit(experiment, "kubeflow", host="http://localhost:8888", caching=False)
    qcnn.submit(experiment, "vertex", pipeline_root="gs://bucket/runs", labels=["team=physics"])
    qcnn.requests(experiment, "vertex-job", output="gs://bucket/runs", project="my-project")
    assert_type(qcnn.get_job("run", "kubernetes", namespace="team"), qcnn.Job)
    qcnn.train(experiment, callbacks=[lambda epoch: epoch.val_loss < 0.1, print])
    qcnn.list_jobs("local", runs="runs")


def rejected(experiment: qcnn.Experiment) -> None:
    qcnn.Experiment(qbits=4)  # type: ignore[call-arg]
    qcnn.Experiment(qubits="4")  # type: ignore[arg-type]
    qcnn.Experiment(optimizer="adamw")  # type: ignore[arg-type]
    experiment.replace(epoch=3)  # type: ignore[call-arg]
    qcnn.Experiment.from_file("experiment.yaml", seed="3")  # type: ignore[arg-type]
    assert experiment.qbits  # type: ignore[attr-defined]
    qcnn.submit(experiment, "tfjob")  # type: ignore[call-overload]
    qcnn.submit(experiment, "tfjob", output="gs://bucket/runs", host="http://localhost")  # type: ignore[call-overload]
    qcnn.submit(experiment, "moon")  # type: ignore[call-overload]
    qcnn.get_job("run", "vertex", namespace="team")  # type: ignore[call-overload]
    qcnn.train(experiment, callbacks=[0.1])  # type: ignore[list-item]
    qcnn.list_jobs("local", runs=3)  # type: ignore[call-overload]
