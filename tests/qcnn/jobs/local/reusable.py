"""Jobs whose processes can run other jobs."""

import sys
import textwrap
from pathlib import Path

from qcnn.jobs.job import JobSpec

# Imitates a reusable worker: prints its arguments, the number of earlier jobs of the process, and its process ID.
REUSABLE = """
    import json, os, signal, sys
    from qcnn.trainer.events import to_pipe
    send = to_pipe(int(sys.argv[sys.argv.index("--events") + 1]))
    arguments, jobs = sys.argv, 0
    while True:
        print(arguments[1], jobs, os.getpid())
        if arguments[1].startswith("fails"):
            sys.exit("out of luck")
        if arguments[1].startswith("is killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        jobs += 1
        if arguments[1].startswith("exits"):
            break
        sys.stdout.flush()
        send("finished")
        line = sys.stdin.readline()
        if not line:
            break
        arguments = ["", *json.loads(line)]
    """


def reusable_job(folder: Path, argument: str, restarts: int = 0, kind: str = "", **replicas: int) -> JobSpec:
    """Return a job whose processes print `argument`.

    Args:
        folder: Working folder, for the program.
        argument: Argument of the program, which may begin with exits, fails or is killed.
        restarts: Maximum number of restarts.
        kind: Kind of the job.
        **replicas: Number of processes by role. None: two workers.
    """
    (folder / "reusable.py").write_text(textwrap.dedent(REUSABLE))
    argv = (sys.executable, "-m", "reusable", argument)
    return JobSpec(
        argv=argv, replicas=replicas or {"worker": 2}, restarts=restarts, heartbeat_timeout_seconds=60, kind=kind
    )


def parse_lines(printed: str) -> list[list[str]]:
    """Return argument, number of earlier jobs and process ID of each worker."""
    return [line.partition("] ")[2].rsplit(" ", 2) for line in sorted(printed.splitlines())]
