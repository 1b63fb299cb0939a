"""What the processes of a job cost on Vertex AI: a machine for each."""

from qcnn.jobs.costs.bill import Bill, bill
from qcnn.jobs.costs.prices import Prices
from qcnn.jobs.pod import Pod
from qcnn.jobs.vertex.machines import machine_for
from qcnn.jobs.vertex.settings import vertex_settings
from qcnn.trainer.errors import ConfigError


def bill_of_machines(processes: int, pod: Pod, seconds: float, prices: Prices) -> Bill:
    """Return the bill for as many machines, of the type that a custom job would have, for so many seconds.

    The storage of its disks is not in it, and on a persistent resource nothing of it is charged anew.

    Raises:
        ConfigError: no machine has what is asked for, or its price is not known.
    """
    machine = machine_for(pod, vertex_settings(pod).machine_type)
    priced = prices.machines.get(machine.name)
    if priced is None or (priced.accelerator, priced.gpus) != (machine.accelerator, machine.gpus):
        gpus = f" with {machine.gpus} {machine.accelerator}" if machine.gpus else ""
        raise ConfigError(f"prices: must have the machine that the job would run on. Given: no {machine.name}{gpus}")
    return bill(machine.name, priced, processes, seconds, prices.vertex_factor)
