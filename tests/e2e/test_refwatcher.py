"""RefWatcher as a process of its own, under its own account, against real Git servers."""

import base64
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from dulwich.objects import ObjectID
from dulwich.refs import Ref
from dulwich.repo import Repo

from magos.api.annotations import DETECTED_REVISION, DETECTED_SOURCE
from magos.api.conditions import ConditionType, find
from magos.api.names import source_key
from magos.api.triggers import Trigger
from magos.api.workspace import Workspace
from magos.local.machine import STATE_FOLDER
from magos.local.servers.gitserver import git_server
from magos.local.servers.samplerepo import SampleRepository
from tests.e2e.onemachine import Document, OneMachine
from tests.envtest.audit import WRITE_VERBS
from tests.envtest.cluster import eventually

POLLED = {"magosproject.io/git-poll-interval": "5s", "magosproject.io/reconcile-interval": "1h"}
ACCOUNT = "system:serviceaccount:magos-system:magos-refwatcher"
NOBODY = {"projectRef": {"name": "nobody"}}  # without a Project nothing is granted: it is only polled


class Repository:
    """A repository of its own behind the machine's Git server, which counts the listings."""

    def __init__(self, here: OneMachine) -> None:
        name = f"watched-{secrets.token_hex(3)}.git"
        self._log = here.here.git.log
        self.url = here.here.git.clone_url(name)
        self.content = SampleRepository.create(here.here.folder / "git" / name, STATE_FOLDER)

    @property
    def listings(self) -> int:
        path = f"/{self.url.rpartition('/')[2]}/info/refs"
        return sum(each.path.startswith(path) for each in self._log.all())


@pytest.fixture
def repository(here: OneMachine) -> Repository:
    return Repository(here)


def polled(here: OneMachine, namespace: str, name: str, url: str, **spec: object) -> Document:
    return here.workspace_document(namespace, name, source={"repoURL": url}, annotations=POLLED, **spec)


def detected(workspace: Workspace) -> str:
    return workspace.metadata.annotations.get(DETECTED_REVISION, "")


def unreachable(workspace: Workspace) -> str:
    found = find(workspace.status.conditions, ConditionType.SOURCE_UNREACHABLE)
    return "" if found is None else f"{found.reason}: {found.message}"


def test_a_commit_on_main_is_applied_without_help(here: OneMachine, namespace: str, repository: Repository) -> None:
    here.apply(polled(here, namespace, "watching", repository.url))
    first = here.wait_applied(namespace, "watching", repository.content.head())
    commit = repository.content.release("1.1.0", ["dev"])
    applied = here.wait_applied(namespace, "watching", commit)
    assert applied.status.current_run_trigger is Trigger.REVISION
    assert applied.status.current_run_id != first.status.current_run_id
    events = here.here.kubectl.run("get", "events", "-n", namespace, "-o", "jsonpath={.items[*].reason}")
    assert "RevisionDetected" in events
    # What was announced and applied is taken away again, and is not announced anew by later polls.
    here.wait(namespace, "watching", lambda w: not detected(w))
    listings = repository.listings
    eventually(lambda: repository.listings >= listings + 2)
    now = here.workspace(namespace, "watching")
    assert not detected(now)
    assert now.status.current_run_id == applied.status.current_run_id


def test_twenty_workspaces_cost_one_listing_per_repository_and_poll_and_a_restart_nothing(
    here: OneMachine, namespace: str
) -> None:
    repositories = [Repository(here), Repository(here)]
    names = [f"many-{number}" for number in range(20)]
    here.apply(*(polled(here, namespace, name, repositories[i % 2].url, **NOBODY) for i, name in enumerate(names)))
    for index, name in enumerate(names):
        found = here.wait(namespace, name, lambda w: bool(detected(w)))
        assert detected(found) == repositories[index % 2].content.head()
        assert found.metadata.annotations[DETECTED_SOURCE] == source_key(found.spec.source.repo_url, "main")
    before = [each.listings for each in repositories]
    quiet = here.audit.mark()
    commit = repositories[0].content.release("1.1.0", ["dev"])
    for name in names[::2]:
        here.wait(namespace, name, lambda w: detected(w) == commit)
    assert repositories[0].listings - before[0] <= 2  # one, or two if one was under way
    # The audit log lags behind: what was written to the others just before may still appear in it.
    mine = [each for each in writes(here, namespace, quiet) if each.rpartition(" ")[2] in names[::2]]
    assert sorted(mine) == sorted(f"patch workspaces {name}" for name in names[::2])

    here.kill("refwatcher")
    restarted = here.audit.mark()
    before = [each.listings for each in repositories]
    eventually(lambda: all(each.listings >= seen + 2 for each, seen in zip(repositories, before, strict=True)))
    assert all(each.listings <= seen + 4 for each, seen in zip(repositories, before, strict=True))
    assert writes(here, namespace, restarted) == []


def writes(here: OneMachine, namespace: str, since: int) -> list[str]:
    """What RefWatcher has written there, Events not counted."""
    return [
        f"{each.verb} {each.resource} {each.name}"
        for each in here.audit.requests(since)
        if each.user == ACCOUNT
        and each.namespace == namespace
        and each.verb in WRITE_VERBS
        and each.resource != "events"
    ]


@contextmanager
def tarpit() -> Iterator[str]:
    """A server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/tar.git"


def test_a_source_that_fails_says_why_and_what_heals_is_noticed(
    here: OneMachine, namespace: str, repository: Repository, tmp_path: Path
) -> None:
    private = SampleRepository.create(tmp_path / "private.git", STATE_FOLDER)
    commit = repository.content.head()
    with tarpit() as tar, git_server(tmp_path, login=("me", "sesame")) as closed:
        url = closed.clone_url("private.git")
        here.apply(
            polled(here, namespace, "stuck", tar, **NOBODY),
            polled(here, namespace, "locked", url, **NOBODY),
            polled(here, namespace, "gone", repository.url, **NOBODY),
        )
        here.wait(namespace, "gone", lambda w: detected(w) == commit)
        with Repo(str(repository.content.path)) as repo:
            del repo.refs[Ref(b"refs/heads/main")]
        locked = here.wait(namespace, "locked", lambda w: bool(unreachable(w)))
        assert unreachable(locked).startswith("GitAuthenticationFailed: ")
        gone = here.wait(namespace, "gone", lambda w: bool(unreachable(w)))
        assert unreachable(gone).startswith("RevisionNotFound: ")
        assert detected(gone) == commit

        here.apply(repository_secret(namespace, url, "sesame"))
        healed = here.wait(namespace, "locked", lambda w: bool(detected(w)) and not unreachable(w), within=5)
        assert detected(healed) == private.head()
        with Repo(str(repository.content.path)) as repo:
            repo.refs[Ref(b"refs/heads/main")] = ObjectID(commit.encode())
        here.wait(namespace, "gone", lambda w: not unreachable(w))
        stuck = here.wait(namespace, "stuck", lambda w: bool(unreachable(w)))
        assert "took longer than 10 s" in unreachable(stuck)
    log = (here.here.folder / "logs" / "magos-refwatcher-controller.log").read_text()
    assert "sesame" not in log


def repository_secret(namespace: str, url: str, password: str) -> Document:
    data = {"repoURL": url, "username": "me", "password": password}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "repo",
            "namespace": namespace,
            "labels": {"magosproject.io/secret-type": "repository"},
        },
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }
