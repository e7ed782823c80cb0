"""A crowd at the API server: 200 streams over 5,000 Workspaces, each of which is to get every change."""

import asyncio
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from magos.local.ports import free_ports
from tests.bench.crowdhouse import CHANGES, WORKSPACES

__all__ = ["NAMES", "measure"]

NAMES = ("sse.streams", "api.rss_mib")

_STREAMS = 200
_SYNC_SECONDS = 90.0
_BURST_SECONDS = 15.0
_REQUEST = (
    b"GET /apis/magosproject.io/v1alpha1/workspaces/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n\r\n"
)


class _Stream:
    """One client, which counts and keeps nothing."""

    def __init__(self) -> None:
        self.synced = asyncio.Event()
        self.complete = asyncio.Event()
        self.objects = 0

    async def run(self, port: int) -> None:
        """Read until cancelled."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(_REQUEST)
            tail = b""
            while chunk := await reader.read(1 << 18):
                text = tail + chunk
                self.objects += text.count(b"\nid: ") + text.count(b"\r\nid: ")
                tail = text[-5:].replace(b"\nid: ", b"")
                if not self.synced.is_set() and b"event: synced" in text:
                    self.synced.set()
                if self.objects >= WORKSPACES + CHANGES:
                    self.complete.set()
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


async def _until_ready(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                answer = await reader.read()
                writer.close()
                if answer.startswith(b"HTTP/1.1 200"):
                    return
            await asyncio.sleep(0.1)


async def _within(seconds: float, events: list[asyncio.Event]) -> int:
    """Return how many of the events happen in time."""
    waits = [asyncio.create_task(each.wait()) for each in events]
    done, late = await asyncio.wait(waits, timeout=seconds)
    for each in late:
        each.cancel()
    return len(done)


async def _crowd(process: "subprocess.Popen[bytes]", port: int) -> dict[str, float]:
    await _until_ready(port)
    streams = [_Stream() for _ in range(_STREAMS)]
    tasks = [asyncio.create_task(each.run(port)) for each in streams]
    began = time.perf_counter()
    synced = await _within(_SYNC_SECONDS, [each.synced for each in streams])
    seconds = time.perf_counter() - began
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    complete = await _within(_BURST_SECONDS, [each.complete for each in streams])
    print(f"crowd: {synced} streams synced in {seconds:.1f} s, {complete} got every change", file=sys.stderr)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return {"sse.streams": complete, "api.rss_mib": _resident(process.pid)}


def _resident(pid: int) -> float:
    """Return the memory of a process in MiB."""
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1024


def measure() -> dict[str, float]:
    """Open the streams, let a burst of changes come, and look at the memory of the process."""
    [port] = free_ports(1)
    command = [sys.executable, "-m", "tests.bench.crowdhouse", str(port)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as child:
        try:
            return asyncio.run(_crowd(child, port))
        finally:
            child.kill()
