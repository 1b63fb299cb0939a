"""Memory of the processes that train, without importing TensorFlow."""

# Peak memory of a process without simulated states: TensorFlow, modules and compiled programs (docs/benchmarks.md).
PROCESS_BYTES = 2.0**30
# The same before a program is compiled, and what a process of a small circuit adds if it is forked from a process that
# has loaded the libraries. Both are lower bounds (python -m benchmarks.run_overhead).
_LIBRARY_BYTES, _FORKED_BYTES = 0.6 * 2**30, 0.12 * 2**30


def process_bytes(states: float) -> float:
    """Return the memory of a worker process in bytes, from that of its states."""
    return PROCESS_BYTES + states


def minimum_bytes(processes: int, states: float, *, are_forked: bool) -> float:
    """Return a lower bound of the memory of processes on one machine, in bytes.

    Args:
        processes: Number of processes.
        states: Memory of all their simulated states, in bytes.
        are_forked: Whether the processes are forked from one that has loaded the libraries, whose memory they share.
    """
    libraries = 1 if are_forked else processes
    return libraries * _LIBRARY_BYTES + processes * _FORKED_BYTES + states
