"""Estimates of runtime and cost of a training run on a platform, by number of workers."""

import dataclasses
from collections.abc import Sequence

from qcnn.costs.platforms import PricingPlatform
from qcnn.experiment.config import ExperimentConfig
from qcnn.experiment.requirements import STRATEGIES
from qcnn.jobs.accelerators import Accelerator
from qcnn.jobs.pricing import CostEstimate
from qcnn.model.history import epochs_left
from qcnn.planning.machine import MachineProfile
from qcnn.planning.memory import process_bytes
from qcnn.planning.plan import Counts, count, predict, with_simulator_on_gpus, with_synchronous_workers
from qcnn.planning.training_estimate import break_even_workers, seconds_of_epochs
from qcnn.process import operating_system
from qcnn.simulators import registry
from qcnn.simulators.costs.cost import MachineSpeed

# Time of a process before its first and after its last training step: imports, tracing, compilation, last checkpoint.
# Measured with `make run` (python -m benchmarks.startup_time) and rounded up.
START_SECONDS = 15.0
# Seconds per kernel on a GPU, and fraction of the peak rates in long steps. Fitted to the steps of docs/gpus.md on an
# NVIDIA H200, which they predict within a factor of 2.
_GPU_KERNEL_SECONDS, _GPU_EFFICIENCY = 1.2e-6, 0.3
# A shorter training run always stays on the local machine.
_SHORT_SECONDS = 900.0


@dataclasses.dataclass(frozen=True)
class ScalingOption:
    """Estimated duration and cost of a training run with a number of workers.

    `fits` is whether the simulated states fit in the memory of a process or of its GPU, and `fits_gpu` only in that of
    its GPU. With `on_gpu`, the states are on a GPU and the seconds are those of its peak rates.
    """

    workers: int
    epoch_seconds: float
    seconds: float
    bill: CostEstimate
    fits: bool
    fits_gpu: bool = True
    on_gpu: bool = False


@dataclasses.dataclass(frozen=True)
class ScalingOptions:
    """Requested scaling option, and the options that were compared, sorted by workers.

    `cores` is the number of cores of each process. `spot` is True for Spot machines. `simulator` is the one that runs
    there.
    """

    requested: ScalingOption
    compared: Sequence[ScalingOption]
    cores: float
    spot: bool
    simulator: str

    @property
    def cheapest(self) -> ScalingOption:
        """Option with the lowest cost, or the fastest of several."""
        return min(self._feasible, key=lambda option: (option.bill.charged(self.spot), option.seconds))

    @property
    def fastest(self) -> ScalingOption:
        """Option with the fewest workers among those that take about the minimum time."""
        seconds = {option.workers: option.seconds for option in self._feasible}
        return next(option for option in self._feasible if option.workers == break_even_workers(seconds))

    @property
    def _feasible(self) -> Sequence[ScalingOption]:
        return [option for option in self.compared if option.fits] or self.compared


def compare_worker_counts(
    config: ExperimentConfig, counts: Counts, platform: PricingPlatform, machine: MachineProfile, spot: bool
) -> ScalingOptions:
    """Estimate a training run with the requested number of workers and with other numbers.

    Other numbers are compared for synchronous strategies only, because these end with the same weights.

    Args:
        config: Experiment to estimate.
        counts: Operation counts of the experiment, by number of workers.
        platform: Platform to run on. On GPUs, the experiment is counted again with the simulator that runs there.
        machine: Speed of the local machine. Every process gets the platform's number of such cores.
        spot: Whether to compare Spot prices.

    Raises:
        ConfigError: If no machine type fits a process, its price is unknown, or the experiment cannot run on GPUs.
    """
    on_platform = machine.with_cores(platform.cores)
    if platform.gpus:
        config = with_simulator_on_gpus(config)
        counts = count(config, is_remote=True)
    uses_gpu = config.simulator != "auto" and registry.declaration(config.simulator).builtin_operations
    gpu = platform.accelerator if uses_gpu else None
    if gpu:
        on_platform = on_platform.with_gpus(gpu_speed(gpu))
    seconds = predict(config, counts, on_platform)
    requested = _scaling_option(config, seconds.chosen, counts.chosen.cost.memory, platform, gpu)
    compared = {requested.workers: requested}
    needs = STRATEGIES[config.strategy]
    if needs.is_synchronous and not needs.devices:
        for workers, epoch_seconds in seconds.by_workers.items():
            shared = with_synchronous_workers(config, workers)
            memory = counts.by_workers[workers].cost.memory
            compared.setdefault(workers, _scaling_option(shared, epoch_seconds, memory, platform, gpu))
    options = [compared[workers] for workers in sorted(compared)]
    return ScalingOptions(requested, options, platform.cores, spot, counts.chosen.simulator)


def gpu_speed(accelerator: Accelerator) -> MachineSpeed:
    """Return the speed of a GPU. Small arrays are evolved in 64 bits, as on the processor."""
    double_flops = _GPU_EFFICIENCY * accelerator.double_flops
    return MachineSpeed(
        flops=_GPU_EFFICIENCY * accelerator.flops,
        traffic=_GPU_EFFICIENCY * accelerator.traffic,
        few_flops=double_flops,
        kernel_seconds=_GPU_KERNEL_SECONDS,
        double_flops=double_flops,
    )


def total_seconds(config: ExperimentConfig, epoch_seconds: float) -> float:
    """Return the total duration of a training run in seconds, from the duration of an epoch."""
    return START_SECONDS + seconds_of_epochs(epoch_seconds, epochs_left(config))


def local_is_sufficient(seconds: float, memory: float, options: ScalingOptions) -> bool:
    """Return whether the local machine is sufficient for a training run.

    It is if it has the memory, and if the run is short or no remote option is faster.

    Args:
        seconds: Duration of the training run on the local machine.
        memory: Bytes of the simulated states.
        options: Estimates on the remote platform.
    """
    has_memory = process_bytes(memory) <= operating_system.memory().total
    return has_memory and seconds <= max(_SHORT_SECONDS, options.fastest.seconds)


def _scaling_option(
    config: ExperimentConfig, epoch_seconds: float, memory: float, platform: PricingPlatform, gpu: Accelerator | None
) -> ScalingOption:
    seconds = total_seconds(config, epoch_seconds)
    fits_gpu = gpu is None or memory <= gpu.memory
    fits = fits_gpu and process_bytes(0 if gpu else memory) <= platform.memory
    return ScalingOption(
        config.workers,
        epoch_seconds,
        seconds,
        platform.bill(config.replicas, seconds),
        fits,
        fits_gpu,
        on_gpu=gpu is not None,
    )
