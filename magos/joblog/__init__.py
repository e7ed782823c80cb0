"""The log of a phase: the output of the pod's stages in their order, each under a heading line (spec §5.4).

The archive, the API's stream and the command line read it here, so that all three show the same text.

What is promised of both readers, over broken connections and a server that ends a response too early:

1. Every line that the node still has comes out once, in the node's order.
2. What a stage did not print is told in a line of our own, in square brackets: that it never started, or that its log
   is gone although the pod is there. A pod that is gone is an ``ApiError`` with ``not_found``.
3. Memory does not grow with the log.

Both are generators: close one that is left early (``contextlib.aclosing``), or its connection stays open.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec import Struct

from magos.api.kube import Pod
from magos.api.names import JobType
from magos.api.runnerpod import Stage, stages_of
from magos.joblog.stagelog import StageLog
from magos.runtime.client.client import ApiClient


def heading(stage: Stage) -> str:
    """Return the line, without its end, that stands above the output of a stage."""
    return f"=== {stage} ==="


def heading_stage(line: str) -> Stage | None:
    """Return the stage that this line is the heading of, None if it is none."""
    return next((stage for stage in Stage if line == heading(stage)), None)


class LogLine(Struct, frozen=True, kw_only=True):
    """A line of a stage's output, without its end. A line of more than 1 MiB arrives in parts."""

    stage: Stage
    text: bytes


async def finished_log(client: ApiClient, pod: Pod, job_type: JobType) -> AsyncGenerator[bytes, None]:
    """Yield the whole log of a pod that has ended, headings included, in chunks of bounded size.

    A container that never started has a heading and a line that says so. The last line of a stage ends with a newline
    even if the stage printed none. Raises ``ApiError``, for trouble that passes after a few attempts.
    """
    for stage in stages_of(job_type):
        yield f"{heading(stage)}\n".encode()
        async with aclosing(StageLog(client, pod, stage).finished()) as batches:
            async for pieces in batches:
                yield b"".join(piece.text + b"\n" if piece.ends else piece.text for piece in pieces)


async def followed_lines(client: ApiClient, pod: Pod, job_type: JobType) -> AsyncGenerator[LogLine, None]:
    """Yield the lines of a pod's stages from the first on and as they are written, until the pod has ended.

    A stage that has not started yet is waited for. A connection that breaks is opened again, and no line is lost or
    repeated. Raises ``ApiError``, for trouble that passes after about a minute.
    """
    for stage in stages_of(job_type):
        async with aclosing(StageLog(client, pod, stage).followed()) as batches:
            async for pieces in batches:
                for piece in pieces:
                    yield LogLine(stage=stage, text=piece.text)
