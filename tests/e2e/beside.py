"""Tests that run beside each other: what they wait for is mostly the cluster, and each has a namespace of its own.

A test made by ``beside`` is collected, parametrised, selected and reported as any other. Its body runs in a thread,
with the bodies of the module's other selected tests, and the test itself only waits for it.
"""

import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.onemachine import OneMachine
from tests.e2e.standing import subject_in

__all__ = ["Running", "beside", "running_beside"]

_AT_A_TIME = 4


class Running:
    """The bodies that run or have run, by the node ID of their test."""

    def __init__(self, bodies: dict[str, Future[None]]) -> None:
        self._bodies = bodies

    def finish(self, test: str) -> None:
        """Wait for the end of a test's body; raises what it raised."""
        self._bodies[test].result()


def beside(body: Callable[..., None]) -> Callable[..., None]:
    """Make a test of ``body(subject, **parameters)``; the fixture ``running`` starts the bodies."""

    def test(running: Running, request: pytest.FixtureRequest, **_: Any) -> None:
        running.finish(request.node.nodeid)

    keyword = inspect.Parameter.KEYWORD_ONLY
    names = ["running", "request", *list(inspect.signature(body).parameters)[1:]]
    test.__name__, test.__doc__, test.__module__ = body.__name__, body.__doc__, body.__module__
    test.__signature__ = inspect.Signature([inspect.Parameter(name, keyword) for name in names])  # type: ignore[attr-defined]
    test.body = body  # type: ignore[attr-defined]
    return test


@contextmanager
def running_beside(here: OneMachine, request: pytest.FixtureRequest) -> Iterator[Running]:
    """Start the bodies of the module's selected tests, a few at a time, in the order of the tests."""

    def run(body: Callable[..., None], parameters: dict[str, Any]) -> None:
        namespace = here.namespace()
        try:
            with subject_in(here, namespace) as subject:
                body(subject, **parameters)
        finally:
            here.call("DELETE", f"/api/v1/namespaces/{namespace}")

    pool = ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="beside")
    try:
        bodies: dict[str, Future[None]] = {}
        for item in request.session.items:
            if isinstance(item, pytest.Function) and item.module is request.module and hasattr(item.function, "body"):
                parameters = item.callspec.params if hasattr(item, "callspec") else {}
                bodies[item.nodeid] = pool.submit(run, item.function.body, parameters)
        yield Running(bodies)
    finally:
        pool.shutdown(cancel_futures=True)
