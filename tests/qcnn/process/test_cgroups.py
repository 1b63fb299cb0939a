"""Limits of control groups, from the text of their files."""

import math
import os

import psutil
import pytest

from qcnn.process import cgroups, operating_system
from qcnn.process.cgroups import CgroupLimits, limits

GIB = 2**30
UNLIMITED = "9223372036854771712\n"
V2 = "30 23 0:26 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup rw,nsdelegate\n"
V1 = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 {root} /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
33 31 0:32 {root} /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
"""
UNIFIED = "34 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
CPU, MEMORY = "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/memory"
NO_LIMITS = CgroupLimits()

CASES: dict[str, tuple[str, str, dict[str, str], CgroupLimits]] = {
    "no proc": ("", "", {}, NO_LIMITS),
    "malformed": ("0::/\nnonsense\n", "nonsense\n - \n1 2 3 - cgroup2 x y\n", {}, NO_LIMITS),
    "v2, container with a namespace": (
        "0::/\n",
        V2,
        {"/sys/fs/cgroup/cpu.max": "150000 100000\n", "/sys/fs/cgroup/memory.max": f"{4 * GIB}\n"},
        CgroupLimits(1.5, 4 * GIB),
    ),
    "v2, max": (
        "0::/\n",
        V2,
        {"/sys/fs/cgroup/cpu.max": "max 100000\n", "/sys/fs/cgroup/memory.max": "max\n"},
        NO_LIMITS,
    ),
    "v2, root group without files": ("0::/\n", V2, {}, NO_LIMITS),
    "v2, smallest of nested groups": (
        "0::/kubepods.slice/pod.slice/container.scope\n",
        V2,
        {
            "/sys/fs/cgroup/kubepods.slice/cpu.max": "300000 100000\n",
            "/sys/fs/cgroup/kubepods.slice/pod.slice/cpu.max": "50000 100000\n",
            "/sys/fs/cgroup/kubepods.slice/pod.slice/container.scope/cpu.max": "max 100000\n",
            "/sys/fs/cgroup/kubepods.slice/memory.max": f"{2 * GIB}\n",
            "/sys/fs/cgroup/kubepods.slice/pod.slice/memory.max": "max\n",
            "/sys/fs/cgroup/kubepods.slice/pod.slice/container.scope/memory.max": f"{8 * GIB}\n",
        },
        CgroupLimits(0.5, 2 * GIB),
    ),
    "v2, mounted below the root of the hierarchy": (
        "0::/docker/abc/inner\n",
        V2.replace(" / ", " /docker/abc ", 1),
        {"/sys/fs/cgroup/memory.max": f"{GIB}\n", "/sys/fs/cgroup/inner/memory.max": f"{3 * GIB}\n"},
        CgroupLimits(memory=GIB),
    ),
    "v2, group outside of the namespace": (
        "0::/../../other\n",
        V2,
        {"/sys/fs/cgroup/memory.max": f"{GIB}\n", "/other/memory.max": "1\n"},
        CgroupLimits(memory=GIB),
    ),
    "v1, container": (
        "5:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n",
        V1.format(root="/docker/abc"),
        {
            f"{CPU}/cpu.cfs_quota_us": "200000\n",
            f"{CPU}/cpu.cfs_period_us": "100000\n",
            f"{MEMORY}/memory.limit_in_bytes": f"{GIB}\n",
        },
        CgroupLimits(2.0, GIB),
    ),
    "v1, unlimited": (
        "5:memory:/\n3:cpu,cpuacct:/\n",
        V1.format(root="/"),
        {
            f"{CPU}/cpu.cfs_quota_us": "-1\n",
            f"{CPU}/cpu.cfs_period_us": "100000\n",
            f"{MEMORY}/memory.limit_in_bytes": UNLIMITED,
        },
        NO_LIMITS,
    ),
    "v1, group that another one limits": (
        "5:memory:/batch/job\n3:cpu,cpuacct:/\n",
        V1.format(root="/"),
        {
            f"{MEMORY}/memory.limit_in_bytes": UNLIMITED,
            f"{MEMORY}/batch/memory.limit_in_bytes": f"{3 * GIB}\n",
            f"{MEMORY}/batch/job/memory.limit_in_bytes": UNLIMITED,
        },
        CgroupLimits(memory=3 * GIB),
    ),
    "hybrid, with the controllers in v1": (
        "5:memory:/a\n3:cpu,cpuacct:/a\n0::/a\n",
        V1.format(root="/") + UNIFIED,
        {
            f"{CPU}/a/cpu.cfs_quota_us": "25000\n",
            f"{CPU}/a/cpu.cfs_period_us": "50000\n",
            f"{MEMORY}/a/memory.limit_in_bytes": f"{GIB}\n",
        },
        CgroupLimits(0.5, GIB),
    ),
    "hybrid, with memory in v2": (
        "3:cpu,cpuacct:/a\n0::/b\n",
        V1.format(root="/") + UNIFIED,
        {
            f"{CPU}/a/cpu.cfs_quota_us": "100000\n",
            f"{CPU}/a/cpu.cfs_period_us": "100000\n",
            "/sys/fs/cgroup/unified/b/memory.max": f"{GIB}\n",
        },
        CgroupLimits(1.0, GIB),
    ),
    "path with a space": (
        "0::/\n",
        V2.replace("/sys/fs/cgroup", r"/sys/fs/c\040group"),
        {"/sys/fs/c group/memory.max": f"{GIB}\n"},
        CgroupLimits(memory=GIB),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_limits_are_smallest_of_groups(case: str) -> None:
    groups, mounts, files, expected = CASES[case]
    assert limits({"/proc/self/cgroup": groups, "/proc/self/mountinfo": mounts, **files}.get) == expected


@pytest.mark.parametrize(("quota", "cores"), [(math.inf, 8), (8, 8), (12.0, 8), (2.5, 3), (2.0, 2), (0.1, 1)])
def test_cores_are_those_of_quota_or_affinity(quota: float, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(cgroups, "limits", lambda: CgroupLimits(cores=quota))
    assert operating_system.cores() == cores
    assert operating_system.cores_of_quota() == (cores if quota < 8 else 0)


def test_memory_is_that_of_container_or_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    physical = psutil.virtual_memory().total
    for limit, expected in ((physical / 2, (physical / 2, True)), (2.0 * physical, (physical, False))):
        monkeypatch.setattr(cgroups, "limits", lambda limit=limit: CgroupLimits(memory=limit))
        found = operating_system.memory()
        assert (found.total, found.is_limited) == expected
        assert found.available <= found.total
