"""The steps that make data of a file that a run has imported, so that all that is made of it can be traced to it.

They do what the steps of these names do that are given no file; Kubeflow's local runner (2.13) knows no artifact that
may be left out.
"""

from typing import NamedTuple

from kfp import dsl

from qcnn.components.resources import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def generate_data(
    qubits: int,
    rounds: int,
    encoding: str,
    seed: int,
    model: str,
    simulator: str,
    optimizer: str,
    hidden_units: int,
    hidden_activation: str,
    strategy: str,
    workers: int,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    options: dict,
    file: dsl.Input[dsl.Dataset],
    dataset: dsl.Output[dsl.Dataset],
    run: str = "",
) -> NamedTuple("Outputs", [("experiment", str)]):  # type: ignore[valid-type]
    """Refuse an experiment that cannot run; pass the checked one on, with its data, which are rows of a file."""
    from qcnn.components.steps.dataset import generate_data as make

    words = {
        "qubits": qubits,
        "rounds": rounds,
        "data": file.uri,
        "encoding": encoding,
        "seed": seed,
        "model": model,
        "simulator": simulator,
        "optimizer": optimizer,
        "hidden_units": hidden_units,
        "hidden_activation": hidden_activation,
        "strategy": strategy,
        "workers": workers,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "options": options,
    }
    experiment, dataset.metadata = make(words, dataset.path, run)
    return (experiment,)


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def trial_data(experiment: str, file: dsl.Input[dsl.Dataset], dataset: dsl.Output[dsl.Dataset]) -> None:
    """Make the training, validation and test data of one trial, which are rows of a file that it names, too."""
    from qcnn.components.steps.dataset import trial_data as run

    dataset.metadata = run(experiment, dataset.path)
