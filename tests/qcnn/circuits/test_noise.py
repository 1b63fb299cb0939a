"""Field `noise`: normalized form, validation and channels by gate."""

import math

import pytest

from qcnn.circuits.noise import NOISELESS, GateNoise, Noise, from_mapping, parse
from qcnn.errors import ConfigError, single_line
from qcnn.experiment.parsing import from_mapping as experiment


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("", ""),
        ("depolarizing=0.01", "depolarizing.one=0.01,depolarizing.two=0.01"),
        ("readout=2e-2, depolarizing.two=0.01", "depolarizing.two=0.01,readout=0.02"),
        ("phase_damping.one=1,amplitude_damping=0", "phase_damping.one=1.0"),
        ("readout=0", ""),
        ({}, ""),
        ({"readout": 1}, "readout=1.0"),
        (
            {"depolarizing": {"one": 0.001, "two": 1e-5}, "amplitude_damping": 0.5},
            "depolarizing.one=0.001,depolarizing.two=1e-05,amplitude_damping.one=0.5,amplitude_damping.two=0.5",
        ),
    ],
)
def test_noise_text_and_mapping_are_normalized(given: object, text: str) -> None:
    normalized = experiment({"options": {"noise": given}}).options.noise
    assert normalized == text
    # Pipeline steps parse the normalized form again.
    assert experiment({"options": {"noise": normalized}}).options.noise == text
    assert bool(parse(normalized)) == bool(text)


@pytest.mark.parametrize(
    "given",
    [
        *("depolarizing", "depolarizing=", "depolarizing=2", "depolarizing=-0.1", "depolarizing=nan", "readout=abc"),
        *("depolarizing=inf", "dephasing=0.1", "depolarizing.three=0.1", "depolarizing.=0.1", "readout.one=0.1"),
        *("readout=0.1,readout=0.1", "depolarizing=0.1,depolarizing.one=0.2", "readout=0.1,", "readout=1_0e-2"),
        *({"depolarizing": 2}, {"depolarizing": math.nan}, {"depolarizing": "0.1"}, {"depolarizing": True}),
        *({"depolarizing": {"three": 0.1}}, {"depolarizing": {"one": {"two": 0.1}}}, {"readout": {"one": 0.1}}),
        *({"depolarizing": 0.1, "depolarizing.one": 0.1}, {1: 0.1}, {"depolarizing": None}, 0.1, ["readout=0.1"]),
        *({"readout": 10**400}, {"depolarizing": {"one": -(10**400)}}),
    ],
    ids=single_line,
)
def test_invalid_noise_is_rejected(given: object) -> None:
    with pytest.raises(ConfigError, match=r"^noise: must be probabilities from 0 to 1 for .* Given: ") as error:
        experiment({"options": {"noise": given}})
    assert str(error.value).isprintable()


def test_noise_channel_depends_on_gate_class() -> None:
    noise = from_mapping({"depolarizing": {"one": 0.1}, "phase_damping": 0.2})
    assert noise == Noise(GateNoise(depolarizing=0.1, phase_damping=0.2), GateNoise(phase_damping=0.2))
    assert (noise.channel(1), noise.channel(2), noise.channel(3)) == (noise.one, noise.two, noise.two)
    assert NOISELESS.channel(1) is None
    assert parse("readout=0.02").channel(2) is None
    assert parse("readout=0.25").visibility == 0.5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"simulator": "lightcone"}, "simulator: must be auto or density with noise, .* Given: lightcone"),
        ({"simulator": "statevector"}, "simulator: must be auto or density with noise, .* Given: statevector"),
        ({"simulator": "tfq"}, "simulator: must be auto or density with noise, .* Given: tfq"),
        ({"qubits": 11, "simulator": "density"}, "qubits: must be at most 10 with simulator density, .* Given: 11"),
        ({"qubits": 12, "options": {"shots": 5}}, "shots: must be 0 with noise above 10 qubits, .* Given: 5"),
        (
            {"qubits": 25},
            "noise: a trajectory of 25 qubits needs 2 GiB; simulator_memory_gib is 1.5. Given: readout=0.1",
        ),
        ({"options": {"trajectories": 0}}, "trajectories: must be an integer, at least 2 .* Given: 0"),
        ({"options": {"gradient": "shift"}}, "gradient: must be one of adjoint, parameter_shift. Given: 'shift'"),
    ],
)
def test_noise_with_incompatible_fields_is_rejected(words: dict[str, object], message: str) -> None:
    options = {"noise": "readout=0.1", "simulator_memory_gib": 1.5, **dict(words.get("options", {}))}  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match=f"^{message}$"):
        experiment({"rounds": 10, **words, "options": options})


@pytest.mark.parametrize("qubits", [10, 11])
def test_noise_applies_to_training_up_to_exact_limit(qubits: int) -> None:
    config = experiment({"qubits": qubits, "rounds": 10, "options": {"noise": "readout=0.1"}})
    noise = parse("readout=0.1")
    exact = qubits == 10
    assert config.noise_in_training == (noise if exact else NOISELESS)
    assert config.noise_by_trajectories == (NOISELESS if exact else noise)
    if not exact:
        assert experiment({**config.model_dump(), "simulator": "lightcone"}).simulator == "lightcone"
