"""Two one-machine modes for all end-to-end tests, with and without API server; each test has its own namespace."""

from collections.abc import Iterator

import pytest

from tests.e2e.beside import Running, running_beside
from tests.e2e.onemachine import OneMachine, one_machine


@pytest.fixture(scope="session")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneMachine]:
    """Everything running; a pod that does not start is given up after a time that tests can wait for."""
    with one_machine(tmp_path_factory.mktemp("machine"), {"MAGOS_JOB_START_TIMEOUT": "30s"}) as running:
        yield running


@pytest.fixture(scope="session")
def equipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneMachine]:
    """A machine of its own, with API server, database and bucket: only tests about them wait for it."""
    with one_machine(tmp_path_factory.mktemp("equipped"), {}, extras=True) as running:
        yield running


@pytest.fixture(scope="module")
def running(here: OneMachine, request: pytest.FixtureRequest) -> Iterator[Running]:
    """The bodies of a module's tests that run beside each other."""
    with running_beside(here, request) as started:
        yield started


@pytest.fixture
def namespace(here: OneMachine) -> Iterator[str]:
    """A namespace with a Project ``shop`` and everything that runner pods need, deleted behind the test."""
    name = here.namespace()
    yield name
    here.here.kubectl.run("delete", "namespace", name, "--wait=false")
