"""Types of arguments in Python, for editors and type checkers. Written by scripts/argument_types.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Protocol, Required, TypedDict, TypeVar, Unpack, overload

if TYPE_CHECKING:
    import numpy as np

    from qcnn.api.circuits import Circuit, CircuitFunction
    from qcnn.targets.base import JobStatus

    Integer = int | np.integer[Any]
    Number = float | np.floating[Any] | np.integer[Any]
    Switch = bool | np.bool | Literal[0, 1]
else:
    # Shorter in the signature of `qcnn.Experiment`.
    Integer, Number, Switch, Circuit, CircuitFunction = int, float, bool, Any, Any

# Types of experiments and jobs, whose modules import this one.
_Experiment = TypeVar("_Experiment", contravariant=True)
_Job = TypeVar("_Job", covariant=True)


class FieldArguments(TypedDict, total=False):
    """Arguments of `qcnn.Experiment`: its fields."""

    qubits: Integer
    rounds: Integer
    data: str | PathLike[str]
    encoding: Literal["excitation", "rx", "ry", "rz", "dense", "amplitude", "circuit"]
    seed: Integer
    model: str | PathLike[str] | Circuit | CircuitFunction
    simulator: str
    optimizer: Literal["adam", "sgd", "rmsprop", "adagrad", "adamax", "nadam", "nesterov"]
    hidden_units: Integer
    hidden_activation: Literal["linear", "relu", "elu", "selu", "gelu", "tanh", "sigmoid", "softplus"]
    strategy: Literal["multi_worker", "mirrored", "central_storage", "parameter_server", "tpu", "none"]
    workers: Integer
    epochs: Integer
    batch_size: Integer
    learning_rate: Number
    train_fraction: Number
    validation_fraction: Number
    simulator_memory_gib: Number
    precision: Literal["complex64", "complex128"]
    checkpoint_seconds: Number
    patience: Integer
    target_val_loss: str | float | None
    export_checkpoint: Literal["last", "best", "both"]
    continue_from: str | PathLike[str]
    max_restarts: Integer
    heartbeat_timeout_seconds: Number
    log_every: Literal["epoch", "batch"]
    profile_batches: str | float | None
    learning_rate_schedule: Literal["cosine", "constant"]
    warmup_fraction: Number
    readout_normalization: Literal["centered", "none"]
    initialization: Literal["normal", "uniform"]
    initialization_scale: Number
    num_initializations: Integer
    shots: Integer
    noise: str | Mapping[str, float] | None
    trajectories: Integer
    gradient: Literal["adjoint", "parameter_shift"]
    loss: Literal["mse", "cross_entropy"]
    head: Literal["auto", "expectation", "probabilities", "softmax", "dense"]
    temperature: Number
    observables: str | PathLike[str]
    inputs: str | PathLike[str]
    feature_map: str | PathLike[str]
    classes: Integer
    momentum: Number
    steps_per_epoch: Integer
    feature_scaling: Literal["minmax", "none"]
    max_samples: Integer
    baseline: Switch
    chief: Switch
    ps: Integer
    evaluator: Switch
    devices: Integer
    reduction: Literal["auto", "hierarchical_copy", "one_device", "nccl"]
    communication: Literal["auto", "ring", "nccl"]
    communication_timeout: Number
    inter_threads: Integer
    intra_threads: Integer
    placement_log: Switch
    visible_gpus: str | float | None
    gpu_memory: str | float | None
    options: Mapping[str, Any]


class FieldValues:
    """Attributes of an experiment: its fields."""

    qubits: int
    rounds: int
    data: str
    encoding: Literal["excitation", "rx", "ry", "rz", "dense", "amplitude", "circuit"]
    seed: int
    model: str
    simulator: str
    optimizer: Literal["adam", "sgd", "rmsprop", "adagrad", "adamax", "nadam", "nesterov"]
    hidden_units: int
    hidden_activation: Literal["linear", "relu", "elu", "selu", "gelu", "tanh", "sigmoid", "softplus"]
    strategy: Literal["multi_worker", "mirrored", "central_storage", "parameter_server", "tpu", "none"]
    workers: int
    epochs: int
    batch_size: int
    learning_rate: float
    train_fraction: float
    validation_fraction: float
    simulator_memory_gib: float
    precision: Literal["complex64", "complex128"]
    checkpoint_seconds: float
    patience: int
    target_val_loss: str
    export_checkpoint: Literal["last", "best", "both"]
    continue_from: str
    max_restarts: int
    heartbeat_timeout_seconds: float
    log_every: Literal["epoch", "batch"]
    profile_batches: str
    learning_rate_schedule: Literal["cosine", "constant"]
    warmup_fraction: float
    readout_normalization: Literal["centered", "none"]
    initialization: Literal["normal", "uniform"]
    initialization_scale: float
    num_initializations: int
    shots: int
    noise: str
    trajectories: int
    gradient: Literal["adjoint", "parameter_shift"]
    loss: Literal["mse", "cross_entropy"]
    head: Literal["auto", "expectation", "probabilities", "softmax", "dense"]
    temperature: float
    observables: str
    inputs: str
    feature_map: str
    classes: int
    momentum: float
    steps_per_epoch: int
    feature_scaling: Literal["minmax", "none"]
    max_samples: int
    baseline: bool
    chief: bool
    ps: int
    evaluator: bool
    devices: int
    reduction: Literal["auto", "hierarchical_copy", "one_device", "nccl"]
    communication: Literal["auto", "ring", "nccl"]
    communication_timeout: float
    inter_threads: int
    intra_threads: int
    placement_log: bool
    visible_gpus: str
    gpu_memory: str


class LocalConnection(TypedDict, total=False):
    """Connection to local."""

    runs: str | PathLike[str]


class KubeflowConnection(TypedDict, total=False):
    """Connection to kubeflow."""

    namespace: str | float | None
    host: str | float | None
    ui_host: str | float | None
    token: str | float | None
    cookies: str | float | None
    iap_client_id: str | float | None
    oauth_client_id: str | float | None
    oauth_client_secret: str | float | None
    ca_cert: str | float | None
    metadata_host: str | float | None


class KubernetesConnection(TypedDict, total=False):
    """Connection to kubernetes, tfjob, trainjob."""

    namespace: str | float | None


class VertexConnection(TypedDict, total=False):
    """Connection to vertex, vertex-job."""

    project: str | float
    location: str | float
    api_endpoint: str | float


class KubeflowSettings(TypedDict, total=False):
    """Settings of kubeflow."""

    namespace: str | float | None
    host: str | float | None
    ui_host: str | float | None
    token: str | float | None
    cookies: str | float | None
    iap_client_id: str | float | None
    oauth_client_id: str | float | None
    oauth_client_secret: str | float | None
    ca_cert: str | float | None
    metadata_host: str | float | None
    package: str | PathLike[str] | None
    image: str | float | None
    pod: Mapping[str, Any]
    accelerator: str | float | None
    tracking: str | float | None
    experiment: str | float
    run_name: str | float | None
    pipeline_root: str | float | None
    service_account: str | float | None
    caching: bool | None
    register: str | float | None
    registry: str | float | None
    tensorboard: str | float


class KubernetesSettings(TypedDict, total=False):
    """Settings of kubernetes, tfjob, trainjob."""

    namespace: str | float | None
    image: str | float | None
    pod: Mapping[str, Any]
    cpu: str | float | None
    memory: str | float | None
    gpus: int | None
    accelerator: str | float | None
    service_account: str | float | None
    queue: str | float | None
    priority_class: str | float | None
    topology_spread: str | float | None
    metrics_port: int | None
    log_format: str | float | None
    environment: Mapping[str, str]
    tracking: str | float | None
    output: Required[str | float]
    name: str | float
    runtime: str | float | None
    active_deadline_seconds: int | None
    ttl_seconds_after_finished: int


class VertexSettings(TypedDict, total=False):
    """Settings of vertex."""

    project: str | float
    location: str | float
    api_endpoint: str | float
    package: str | PathLike[str] | None
    image: str | float | None
    pod: Mapping[str, Any]
    accelerator: str | float | None
    tracking: str | float | None
    pipeline_root: Required[str | float]
    experiment: str | float
    run_name: str | float | None
    service_account: str | float | None
    network: str | float | None
    labels: Sequence[str]
    caching: bool | None
    register: str | float | None
    registry: str | float | None


class VertexJobSettings(TypedDict, total=False):
    """Settings of vertex-job."""

    project: str | float
    location: str | float
    api_endpoint: str | float
    image: str | float | None
    pod: Mapping[str, Any]
    cpu: str | float | None
    memory: str | float | None
    gpus: int | None
    accelerator: str | float | None
    service_account: str | float | None
    queue: str | float | None
    priority_class: str | float | None
    topology_spread: str | float | None
    metrics_port: int | None
    log_format: str | float | None
    environment: Mapping[str, str]
    tracking: str | float | None
    output: Required[str | float]
    name: str | float


class SubmitFunction(Protocol[_Experiment, _Job]):
    """Overloads by target."""

    @overload
    def __call__(
        self, experiment: _Experiment, /, target: Literal["kubeflow"], **settings: Unpack[KubeflowSettings]
    ) -> _Job: ...
    @overload
    def __call__(
        self,
        experiment: _Experiment,
        /,
        target: Literal["kubernetes", "tfjob", "trainjob"],
        **settings: Unpack[KubernetesSettings],
    ) -> _Job: ...
    @overload
    def __call__(
        self, experiment: _Experiment, /, target: Literal["vertex"], **settings: Unpack[VertexSettings]
    ) -> _Job: ...
    @overload
    def __call__(
        self, experiment: _Experiment, /, target: Literal["vertex-job"], **settings: Unpack[VertexJobSettings]
    ) -> _Job: ...


class RequestsFunction(Protocol[_Experiment]):
    """Overloads by target."""

    @overload
    def __call__(
        self, experiment: _Experiment, /, target: Literal["kubeflow"], **settings: Unpack[KubeflowSettings]
    ) -> Sequence[Mapping[str, Any]]: ...
    @overload
    def __call__(
        self,
        experiment: _Experiment,
        /,
        target: Literal["kubernetes", "tfjob", "trainjob"],
        **settings: Unpack[KubernetesSettings],
    ) -> Sequence[Mapping[str, Any]]: ...
    @overload
    def __call__(
        self, experiment: _Experiment, /, target: Literal["vertex"], **settings: Unpack[VertexSettings]
    ) -> Sequence[Mapping[str, Any]]: ...
    @overload
    def __call__(
        self, experiment: _Experiment, /, target: Literal["vertex-job"], **settings: Unpack[VertexJobSettings]
    ) -> Sequence[Mapping[str, Any]]: ...


class GetJobFunction(Protocol[_Job]):
    """Overloads by target."""

    @overload
    def __call__(self, name: str, target: Literal["local"], **connection: Unpack[LocalConnection]) -> _Job: ...
    @overload
    def __call__(self, name: str, target: Literal["kubeflow"], **connection: Unpack[KubeflowConnection]) -> _Job: ...
    @overload
    def __call__(
        self, name: str, target: Literal["kubernetes", "tfjob", "trainjob"], **connection: Unpack[KubernetesConnection]
    ) -> _Job: ...
    @overload
    def __call__(
        self, name: str, target: Literal["vertex", "vertex-job"], **connection: Unpack[VertexConnection]
    ) -> _Job: ...


class ListJobsFunction(Protocol):
    """Overloads by target."""

    @overload
    def __call__(self, target: Literal["local"], **connection: Unpack[LocalConnection]) -> Sequence[JobStatus]: ...
    @overload
    def __call__(
        self, target: Literal["kubeflow"], **connection: Unpack[KubeflowConnection]
    ) -> Sequence[JobStatus]: ...
    @overload
    def __call__(
        self, target: Literal["kubernetes", "tfjob", "trainjob"], **connection: Unpack[KubernetesConnection]
    ) -> Sequence[JobStatus]: ...
    @overload
    def __call__(
        self, target: Literal["vertex", "vertex-job"], **connection: Unpack[VertexConnection]
    ) -> Sequence[JobStatus]: ...
