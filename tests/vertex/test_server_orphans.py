"""Child processes of the server end with the server process, even if it is killed."""

import subprocess
import sys

import psutil

_SERVER = """
import sys
from pathlib import Path
from tests.vertex.clients import custom_job, jobs, python_pool
from tests.vertex.fake_service.vertex import Vertex
server = Vertex(Path(sys.argv[1]))
program = "import os, time; print('process', os.getpid(), flush=True); time.sleep(600)"
job = jobs(server).create_custom_job(parent=server.parent, custom_job=custom_job(python_pool(program)))
server.until_line(job.name, "workerpool0-0", "process")
print(*server.logs.lines(job.name.split("/")[-1], "workerpool0-0"), flush=True)
sys.stdin.read()
"""


def test_killed_server_leaves_no_processes(tmp_path: object) -> None:
    command = [sys.executable, "-W", "ignore", "-c", _SERVER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        started = psutil.Process(int(server.stdout.readline().split()[-1]))
        others = psutil.Process(server.pid).children()
        server.kill()
    assert started in others
    _, left = psutil.wait_procs(others, timeout=60)
    assert not left
