"""The log of a phase: the output of the pod's stages in their order, each under a heading line (spec §5.4).

The archive, the API's stream and the command line read it here, so that all three show the same text.
"""

from collections.abc import AsyncIterator

from msgspec import Struct

from magos.api.kube import Pod
from magos.api.names import JobType
from magos.api.runnerpod import Stage
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


def finished_log(client: ApiClient, pod: Pod, job_type: JobType) -> AsyncIterator[bytes]:
    """Yield the whole log of a pod that has ended, headings included, in chunks of bounded size.

    A container that never started has a heading and no output. Raises ``ApiError``.
    """
    raise NotImplementedError


def followed_lines(client: ApiClient, pod: Pod, job_type: JobType) -> AsyncIterator[LogLine]:
    """Yield the lines of a pod's stages from the first on and as they are written, until the pod has ended.

    A stage that has not started yet is waited for. A connection that breaks is opened again, and no line is lost or
    repeated. Raises ``ApiError``.
    """
    raise NotImplementedError
