"""What running controllers say and use: the samples of their metrics endpoints, and CPU and memory of a process."""

import os
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec

__all__ = ["Process", "Samples", "process", "samples"]

Samples: TypeAlias = list[tuple[Mapping[str, str], float]]

_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.ASCII)
_LABEL = re.compile(r'(\w+)="([^"]*)"', re.ASCII)


class Process(msgspec.Struct, frozen=True):
    """What a process has used: CPU seconds since its start, and MiB of memory now."""

    cpu: float
    memory: float


def samples(port: int, family: str) -> Samples:
    """The samples of a metric of the controller that serves metrics on this port; none while it cannot be asked."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return []
    found = [match for line in lines if line.startswith(family) and (match := _SAMPLE.match(line))]
    return [(dict(_LABEL.findall(each[2] or "")), float(each[3])) for each in found if each[1] == family]


def process(pid: int) -> Process:
    """What the process has used so far; ``OSError`` if there is none."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    memory = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.ASCII)
    ticks = os.sysconf("SC_CLK_TCK")
    return Process((int(fields[11]) + int(fields[12])) / ticks, int(memory[1]) / 1024 if memory else 0.0)
