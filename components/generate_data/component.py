"""Step 1: check the experiment and make its dataset."""

from typing import NamedTuple

from kfp import dsl

from qcnn.components.image import IMAGE


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def generate_data(
    qubits: int,
    rounds: int,
    data: str,
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
    dataset: dsl.Output[dsl.Dataset],
    run: str = "",
) -> NamedTuple("Outputs", [("experiment", str)]):  # type: ignore[valid-type]
    """Refuse an experiment that cannot run; pass the checked one on, with its training, validation and test data."""
    from qcnn.components.generate_data.step import generate_data as make

    words = {
        "qubits": qubits,
        "rounds": rounds,
        "data": data,
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
