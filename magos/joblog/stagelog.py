"""Reads the log of one stage: of a container that has ended, or as it goes on."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from magos.api.kube import PODS, ContainerStatus, Pod
from magos.api.runnerpod import Stage
from magos.joblog.pieces import Piece, PieceSplitter
from magos.joblog.seen import Seen
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError, Status

LOOK_SECONDS: Final = 1.0
"""Between two looks at a pod, and before a log is opened again."""

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 5.0
_FINISHED_ATTEMPTS: Final = 5
_FOLLOWED_ATTEMPTS: Final = 15
"""With their pauses about eight seconds and about a minute: who follows waits for an API server that restarts."""

_GONE: Final = b"unable to retrieve container logs"
"""How a kubelet begins its answer, which is a success, for a container that it has removed."""

Batch = list[Piece]


class StageLog:
    """One reading of a stage's log; use it once."""

    def __init__(self, client: ApiClient, pod: Pod, stage: Stage) -> None:
        self._client = client
        self._pod = pod
        self._stage = stage
        self._seen = Seen()
        self._rest: Piece | None = None
        """An end without newline, of the last reading that the server ended."""
        self._readings = 0
        """How many the server ended."""
        self._settled = False
        """The last reading, which the server ended, added nothing to the one before it."""
        self._failures = 0

    async def finished(self) -> AsyncGenerator[Batch, None]:
        """Yield all pieces of a container that has ended or never started."""
        async with aclosing(self._whole(_FINISHED_ATTEMPTS)) as batches:
            async for batch in batches:
                yield batch

    async def followed(self) -> AsyncGenerator[Batch, None]:
        """Yield pieces as the container prints them, until it has ended; wait for it as long as it has not started."""
        while True:
            pod = await self._look()
            status = _status(pod, self._stage)
            if pod.ended or (status is not None and status.state.terminated is not None):
                break
            if status is not None and status.state.running is not None:
                async with aclosing(self._follow()) as batches:
                    async for batch in batches:
                        yield batch
            await asyncio.sleep(LOOK_SECONDS)
        async with aclosing(self._whole(_FOLLOWED_ATTEMPTS)) as batches:
            async for batch in batches:
                yield batch

    async def _whole(self, attempts: int) -> AsyncGenerator[Batch, None]:
        """Read until a reading adds nothing: the API server ends a response in order also when it lost the node."""
        while not self._settled:
            try:
                async with aclosing(self._read(follow=False)) as batches:
                    async for batch in batches:
                        self._failures = 0
                        yield batch
            except ApiError as error:
                words = await self._absence(error)
                if words:
                    yield [Piece(text=words, at=None)]
                    return
                await self._pause(error, attempts)
        if self._rest is not None and self._seen.take(self._rest):
            yield [_worded(self._rest)]

    async def _follow(self) -> AsyncGenerator[Batch, None]:
        """Yield what the container prints until the connection ends, for whatever reason."""
        try:
            async with aclosing(self._read(follow=True)) as batches:
                async for batch in batches:
                    yield batch
        except ApiError as error:
            # 400: the node says a little later than the pod's status that the container has started.
            if error.status != 400 and not error.not_found:
                await self._pause(error, _FOLLOWED_ATTEMPTS)

    async def _read(self, *, follow: bool) -> AsyncGenerator[Batch, None]:
        """Open the log once and yield what is new in it."""
        self._seen.reopen()
        splitter, added = PieceSplitter(), False
        async with self._client.pod_log(
            self._pod.metadata.namespace,
            self._pod.metadata.name,
            self._stage,
            follow=follow,
            since=self._seen.since,
            timestamps=True,
        ) as chunks:
            if follow:
                self._failures = 0  # it is there; a silent stream is cut by our own side, and that is no failure
            async for chunk in chunks:
                batch = [_worded(piece) for piece in splitter.feed(chunk) if self._seen.take(piece)]
                if batch:
                    added = True
                    yield batch
        rest = splitter.rest()
        self._settled = not (added or follow) and self._readings > 0 and rest == self._rest
        self._readings += 1
        self._rest = rest

    async def _look(self) -> Pod:
        """Return the pod as it is now; ``ApiError`` with ``not_found`` if it is gone, or another has its name."""
        while True:
            try:
                pod = await self._client.get(PODS, self._pod.metadata.namespace, self._pod.metadata.name)
            except ApiError as error:
                await self._pause(error, _FOLLOWED_ATTEMPTS)
                continue
            if pod.metadata.uid != self._pod.metadata.uid:
                what = PODS.ref(self._pod.metadata.namespace, self._pod.metadata.name)
                raise ApiError(
                    f"read the log of {what}: the pod is gone, and another one has its name",
                    answer=Status(code=404, reason="NotFound"),
                )
            return pod

    async def _absence(self, error: ApiError) -> bytes:
        """Return the line to print where the pod has no log for this stage; empty if the error tells something else."""
        if error.status == 400:
            return f"[no output of this stage: {error.detail}]".encode()
        if error.not_found:
            await self._look()
            return f"[the log of this stage is gone: {error.detail}]".encode()
        return b""

    async def _pause(self, error: ApiError, attempts: int) -> None:
        """Wait before the next attempt; raise the error if it does not pass by itself, or not for too long."""
        self._failures += 1
        if not error.transient or self._failures >= attempts:
            raise error
        await asyncio.sleep(min(_FIRST_PAUSE * 2 ** (self._failures - 1), _LONGEST_PAUSE))


def _status(pod: Pod, stage: Stage) -> ContainerStatus | None:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return next((status for status in statuses if status.name == stage), None)


def _worded(piece: Piece) -> Piece:
    if piece.at is None and piece.text.startswith(_GONE):
        return Piece(text=b"[the log of this stage is gone: " + piece.text + b"]", at=None)
    return piece
