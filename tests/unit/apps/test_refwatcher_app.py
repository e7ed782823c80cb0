"""RefWatcher's flags, its credentials and its question to the Git server."""

import argparse
import asyncio
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import cast

import pytest
from dulwich.objects import Commit, ObjectID, Tag, Tree
from dulwich.refs import Ref
from dulwich.repo import Repo
from hypothesis import given
from hypothesis import strategies as st

from magos.adapters.gitlister import host_of
from magos.adapters.metrics.polls import PollMetrics
from magos.adapters.repositoryaccess import AccessReader, SecretProblem, credentials_of
from magos.api.kube import Secret
from magos.api.meta import ObjectMeta
from magos.apps.refwatcher import RefWatcherSettings, add_flags, refwatcher_settings
from magos.errors import ConfigurationError
from magos.git.credentials import Credentials
from magos.git.errors import GitError, GitReason
from magos.git.http import retry_after
from magos.git.lsremote import LsRemotesRequest, Resolution, ls_remotes
from magos.local.servers.loopback import StaticServer, serving
from magos.reconcilers.refwatcher.machine import PollResult
from magos.reconcilers.refwatcher.schedule import PollLimits, PollScheduler
from magos.reconcilers.refwatcher.watch import Access, RepositoryAccess, Watch
from magos.runtime.client.client import ApiClient
from magos.runtime.client.watchevents import ListPage
from magos.runtime.controller.workqueue import Key
from magos.runtime.manager.metrics import Metrics
from magos.runtime.manager.settings import flag_parser

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def parsed(*arguments: str, **environ: str) -> RefWatcherSettings:
    parser: argparse.ArgumentParser = flag_parser("magos-refwatcher-controller")
    add_flags(parser)
    return refwatcher_settings(environ, parser.parse_args(arguments))


def test_the_defaults_are_those_of_the_specification() -> None:
    settings = parsed()
    assert settings.default_poll_interval == timedelta(seconds=30)
    assert (settings.limits.workers, settings.limits.queue) == (20, 200)
    assert settings.allowed_schemes == ("https", "http", "ssh")


def test_every_setting_can_be_given() -> None:
    settings = parsed(
        "--default-poll-interval=1m30s",
        "--worker-count",
        "3",
        "--work-queue-size=7",
        MAGOS_ALLOWED_GIT_SCHEMES="https",
        MAGOS_DENIED_PEERS="10.0.0.0/8",
        MAGOS_ALLOWED_PEERS="10.1.2.3",
    )
    assert settings.default_poll_interval == timedelta(seconds=90)
    assert (settings.limits.workers, settings.limits.queue) == (3, 7)
    assert settings.allowed_schemes == ("https",)
    assert [settings.peers.permits(address) for address in ("10.1.2.3", "10.1.2.4")] == [True, False]


@pytest.mark.parametrize(
    "argument",
    ["--default-poll-interval=30", "--default-poll-interval=10ms", "--default-poll-interval=", "--worker-count=0",
     "--worker-count=many", "--worker-count=1000000", "--work-queue-size=0", "--work-queue-size=-1"],
)  # fmt: skip
def test_what_is_wrong_is_one_line_that_names_the_flag(argument: str) -> None:
    with pytest.raises(ConfigurationError, match=argument.partition("=")[0]) as caught:
        parsed(argument)
    assert "\n" not in str(caught.value)


def secret(**data: bytes) -> Secret:
    return Secret(metadata=ObjectMeta(name="repo", namespace="n"), data={"repoURL": b"https://x/y", **data})


def test_a_secret_is_read_as_the_runner_reads_it() -> None:
    full = secret(
        sshPrivateKey=b"key",
        username=b"me",
        password=b"word",
        known_hosts=b"host",
        caBundle=b"pem",
        insecureIgnoreHostKey=b"true",
        unknown=b"?",
    )
    assert credentials_of(full) == Credentials("key", "me", "word", "host", "pem", insecure_ignore_host_key=True)
    assert credentials_of(secret(password=b"", insecureIgnoreHostKey=b"yes")) == Credentials()


def test_a_secret_that_cannot_be_used_says_what_is_wrong_and_no_value() -> None:
    with pytest.raises(SecretProblem, match="username but no password"):
        credentials_of(secret(username=b"hidden"))
    with pytest.raises(SecretProblem, match="key password of repository Secret repo is not text") as caught:
        credentials_of(secret(password=b"\xff\xfe"))
    assert "hidden" not in str(caught.value)


class Listed:
    """An API client that knows these Secrets and nothing else."""

    def __init__(self, *items: Secret) -> None:
        self.items = items

    async def list_all(self, *_: object, **__: object) -> ListPage[Secret]:
        return ListPage(items=self.items)


def test_a_secret_for_another_spelling_is_a_hint_and_not_an_access() -> None:
    data = {"password": b"hunter2"}
    secrets = [
        Secret(metadata=ObjectMeta(name=name, namespace="n"), data={"repoURL": url, **data})
        for name, url in (("slash", b"https://Git/a/"), ("dot", b"https://git/a.git"), ("other", b"https://git/a2"))
    ]
    client = cast("ApiClient", Listed(*secrets))

    def access(url: str) -> Access:
        return asyncio.run(AccessReader()(RepositoryAccess("n", url, ()), client))

    assert access("https://git/a") == Access(similar=("dot", "slash"))
    assert access("https://git/b") == Access()
    exact = access("https://git/a.git")
    assert (exact.secret, exact.similar, bool(exact.fingerprint)) == ("dot", (), True)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Git.Example.com/a/b.git", "https://git.example.com"),
        ("git@example.com:a/b.git", "ssh://example.com"),
        ("ssh://git@example.com:2222/a", "ssh://example.com:2222"),
        ("not a url", ""),
    ],
)
def test_the_server_behind_a_url_is_its_origin(url: str, host: str) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("120", 120.0), (" 7 ", 7.0), ("Thu, 01 Jan 2026 12:05:00 GMT", 300.0), ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
     ("", None), (None, None), ("soon", None), ("-5", None), ("1e3", None), ("9" * 40, None)],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, NOW) == seconds


@given(st.text(max_size=40))
def test_no_retry_after_header_breaks_a_poll(header: str) -> None:
    found = retry_after(header, NOW)
    assert found is None or found >= 0


class _Busy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(429)
        self.send_header("Retry-After", "77")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Nothing is printed."""


def test_a_server_that_is_asked_too_often_says_for_how_long_not() -> None:
    server = StaticServer(("127.0.0.1", 0), _Busy)
    with serving(server, "busy"):
        request = LsRemotesRequest(f"http://127.0.0.1:{server.server_port}/r.git", ("main",), ("http",))
        with pytest.raises(GitError, match="HTTP 429") as caught:
            ls_remotes(request)
    assert caught.value.retry_after == 77.0


def test_metrics_have_their_names_and_zeros_from_the_start_and_end_with_the_workspace() -> None:
    async def scene() -> None:
        schedule, metrics = PollScheduler(PollLimits()), Metrics()
        polls = PollMetrics(metrics, schedule, per_object=True)
        schedule.track(("n", "a"), Watch(uid="1", url="u", target="main", interval=30.0), 0.0, 0.0)
        text = (await metrics.render()).decode()
        assert "refwatcher_registry_size 1.0" in text
        assert "refwatcher_worker_queue_depth 0.0" in text
        assert "refwatcher_poll_duration_seconds_count 0.0" in text
        for result in ("changed", "unchanged", "error", "seeded"):
            assert f'refwatcher_poll_total{{name="a",namespace="n",result="{result}"}} 0.0' in text.replace(
                'namespace="n",name="a"', 'name="a",namespace="n"'
            )
        polls.judged(Key("n", "a"), PollResult.SEEDED)
        polls.listed(0.2)
        text = (await metrics.render()).decode()
        assert 'result="seeded"} 1.0' in text
        assert "refwatcher_poll_duration_seconds_count 1.0" in text
        schedule.drop(("n", "a"))
        assert "refwatcher_poll_total{" not in (await metrics.render()).decode()

    asyncio.run(scene())


def _commit(repo: Repo, message: bytes) -> ObjectID:
    tree, commit = Tree(), Commit()
    commit.tree = tree.id
    commit.author = commit.committer = b"a <a@example.com>"
    commit.author_time = commit.commit_time = commit.author_timezone = commit.commit_timezone = 0
    commit.message = message
    for item in (tree, commit):
        repo.object_store.add_object(item)
    return commit.id


def test_many_targets_are_resolved_from_one_listing_each_by_its_own_rule(tmp_path: Path) -> None:
    with Repo.init_bare(str(tmp_path)) as repo:
        one, two = _commit(repo, b"one"), _commit(repo, b"two")
        tag = Tag()
        tag.name, tag.object, tag.message = b"v1", (Commit, two), b"v1"
        tag.tagger, tag.tag_time, tag.tag_timezone = b"a <a@example.com>", 0, 0
        repo.object_store.add_object(tag)
        repo.refs[Ref(b"refs/heads/main")] = one
        repo.refs[Ref(b"refs/heads/release")] = one
        repo.refs[Ref(b"refs/tags/release")] = two
        repo.refs[Ref(b"refs/tags/v1")] = tag.id
    targets = ("main", "release", "v1", "refs/tags/release", "gone", "abc1234", "f" * 40)
    found = ls_remotes(LsRemotesRequest(url=str(tmp_path), targets=targets, allowed_schemes=("file",)))
    assert tuple(found) == targets
    shas = {target: each.sha for target, each in found.items() if isinstance(each, Resolution)}
    assert shas == {
        "main": one.decode(),
        "release": one.decode(),
        "v1": two.decode(),
        "refs/tags/release": two.decode(),
        "f" * 40: "f" * 40,
    }
    for target in ("gone", "abc1234"):
        error = found[target]
        assert isinstance(error, GitError)
        assert error.reason is GitReason.REVISION_NOT_FOUND
        assert target in error.message
    with pytest.raises(GitError, match="MAGOS_ALLOWED_GIT_SCHEMES"):
        ls_remotes(LsRemotesRequest(url=str(tmp_path), targets=targets, allowed_schemes=("https",)))
