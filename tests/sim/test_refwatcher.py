"""RefWatcher as a process over the simulated API server, with Git servers that are played (spec §6.7)."""

import itertools
import random
from collections.abc import Callable

import anyio
import pytest

from magos.api.meta import Condition
from magos.api.names import source_key
from magos.api.workspace import WORKSPACES
from magos.reconcilers.refwatcher.machine import Failure
from magos.reconcilers.refwatcher.schedule import PollLimits
from tests.sim.apiserver import Answer, Rule
from tests.sim.refwatching import NAMESPACE, Remote, World, in_world, sha, url

NOTHING = Condition(type="", status="", reason="", message="", last_transition_time="")
A, B, C = sha(0xA), sha(0xB), sha(0xC)


def test_a_commit_is_announced_with_its_source_within_an_interval() -> None:
    async def scene(world: World) -> None:
        git = world.remote("git", main=A)
        await world.create("a", "git")
        async with world.running():
            assert await world.until(lambda: world.detected("a") == A) < 32
            assert world.source("a") == source_key(url("git"), "main")
            git.refs["main"] = B
            assert await world.until(lambda: world.detected("a") == B) < 32

    in_world(scene)


def test_at_rest_nothing_is_written_and_nothing_read_but_watches() -> None:
    async def scene(world: World) -> None:
        git = world.remote("git", main=A)
        for number in range(20):
            await world.create(f"w{number}", "git")
        async with world.running():
            await world.until(lambda: all(world.detected(f"w{number}") == A for number in range(20)))
            await anyio.sleep(5)
            written, read = len(world.served()), len(world.served("get", "list"))
            asked = len(git.asked)
            await anyio.sleep(300)
            assert len(world.served()) == written == 20
            assert len(world.served("get", "list")) == read
            assert len(git.asked) - asked in (9, 10)

    in_world(scene)


def test_a_thousand_workspaces_on_ten_repositories_cost_one_listing_each_and_a_restart_no_write() -> None:
    async def scene(world: World) -> None:
        remotes = [world.remote(f"git{number}", main=A, dev=B) for number in range(10)]
        for number in range(1000):
            await world.create(f"w{number}", f"git{number % 10}", "dev" if number % 20 >= 10 else "main")
        async with world.running():
            await world.until(lambda: all(world.detected(f"w{number}") for number in range(1000)))
            await anyio.sleep(5)
        written = len(world.served())
        assert written == 1000
        for remote in remotes:
            remote.asked.clear()
            remote.targets.clear()
        async with world.running():
            await anyio.sleep(10 + 30 + 1)
        assert len(world.served()) == written
        for remote in remotes:
            assert len(remote.asked) in (1, 2)
            assert remote.targets[-1] == ("dev", "main")

    in_world(scene)


@pytest.mark.parametrize("seed", range(3))
def test_a_tarpit_delays_nobody_else(seed: int) -> None:
    async def scene(world: World) -> None:
        world.settings = type(world.settings)(limits=PollLimits(workers=4, queue=5))
        for number in range(12):
            world.remote(f"tar{number}").hangs = True
            await world.create(f"t{number}", f"tar{number}")
        good = [world.remote(f"good{number}", main=A) for number in range(4)]
        for number in range(4):
            await world.create(f"g{number}", f"good{number}")
        async with world.running():
            await world.until(lambda: all(world.detected(f"g{number}") == A for number in range(4)))
            await anyio.sleep(120)
            for remote in good:
                pauses = [b - a for a, b in itertools.pairwise(remote.asked[-4:])]
                assert max(pauses) < 31, pauses
            assert all(len(world.remotes[url(f"tar{number}")].asked) >= 1 for number in range(12))

    in_world(scene, seed=seed)


@pytest.mark.parametrize("seed", range(2))
def test_repositories_that_never_answer_do_not_delay_others_of_their_server(seed: int) -> None:
    """Thirty hang and five are well: these are first polled within a minute, and then every interval."""

    async def scene(world: World) -> None:
        good: list[Remote] = []
        for number in range(35):
            remote = Remote(refs={"main": A}, hangs=number % 7 != 3)
            world.remotes[f"{url('one')}{number}"] = remote
            await world.create(f"r{number}", "one")
            await world.retarget(f"r{number}", repoURL=f"{url('one')}{number}")
            good += [] if remote.hangs else [remote]
        other = world.remote("other", main=A)
        await world.create("other", "other")
        async with world.running():
            await anyio.sleep(300)
        assert len(good) == 5
        for remote in good:
            assert remote.asked[0] < 60
            assert max(b - a for a, b in itertools.pairwise(remote.asked)) < 41, "an interval and one time-out"
            assert all(b - a < 31 for a, b in itertools.pairwise([each for each in remote.asked if each > 60]))
        assert max(b - a for a, b in itertools.pairwise(other.asked)) < 31
        assert min(len(world.remotes[f"{url('one')}{number}"].asked) for number in range(35)) >= 1, (
            "nobody is forgotten"
        )

    in_world(scene, seed=seed)


def test_many_repositories_on_a_tarpit_take_one_worker() -> None:
    async def scene(world: World) -> None:
        world.settings = type(world.settings)(limits=PollLimits(workers=2, queue=2))
        for number in range(10):
            remote = world.remote("tar")
            remote.hangs = True
            world.remotes[f"{url('tar')}{number}"] = remote
            await world.create(f"t{number}", "tar")
            await world.retarget(f"t{number}", repoURL=f"{url('tar')}{number}")
        good = world.remote("good", main=A)
        await world.create("g", "good")
        async with world.running():
            await anyio.sleep(300)
        assert world.detected("g") == A
        pauses = [b - a for a, b in itertools.pairwise(good.asked)]
        assert max(pauses) < 31
        began = sorted(world.remotes[url("tar")].asked)
        assert min(b - a for a, b in itertools.pairwise(began)) > 9.99  # one after the other

    in_world(scene)


def test_too_many_requests_are_answered_with_the_patience_that_was_asked_for() -> None:
    async def scene(world: World) -> None:
        git = world.remote("git", main=A)
        git.failure, git.retry_after = Failure("GitFailed", "HTTP 429"), 200.0
        await world.create("a", "git")
        async with world.running():
            await world.until(lambda: len(git.asked) == 2)
            assert git.asked[1] - git.asked[0] >= 200
            await world.retarget("a", targetRevision="dev")  # not even what is to be asked at once breaks that
            await world.until(lambda: len(git.asked) == 3)
            assert git.asked[2] - git.asked[1] >= 200

    in_world(scene)


def test_three_errors_in_a_row_are_a_condition_that_one_success_removes() -> None:
    async def scene(world: World) -> None:
        git = world.remote("git", main=A)
        await world.create("a", "git", git_poll_interval="5s")
        await world.set_status(
            "a", conditions=[{"type": "Theirs", "status": "True", "reason": "X", "message": "", **_STAMP}]
        )
        async with world.running():
            await world.until(lambda: world.detected("a") == A)
            git.failure = Failure("GitFailed", "connection refused")
            errors = len(git.asked)
            await world.until(lambda: world.unreachable("a") is not None)
            assert len(git.asked) - errors == 3
            found = world.unreachable("a")
            assert found is not None
            assert (found.reason, found.message) == ("GitFailed", "connection refused")
            written = len(world.served())
            await anyio.sleep(60)
            assert len(world.served()) == written
            git.failure = None
            await world.until(lambda: world.unreachable("a") is None)
            assert [each.type for each in world.workspace("a").status.conditions] == ["Theirs"]
            assert world.detected("a") == A
            await anyio.sleep(60)
            assert len(world.served()) == written + 1

    in_world(scene)


_STAMP = {"lastTransitionTime": "2026-01-01T00:00:00Z"}


def test_a_branch_that_is_gone_is_a_condition_and_the_last_commit_stays() -> None:
    async def scene(world: World) -> None:
        git = world.remote("git", main=A, other=B)
        await world.create("a", "git", git_poll_interval="5s")
        await world.create("b", "git", "other", git_poll_interval="5s")
        async with world.running():
            await world.until(lambda: bool(world.detected("a") and world.detected("b")))
            del git.refs["main"]
            await world.until(lambda: world.unreachable("a") is not None)
            found = world.unreachable("a")
            assert found is not None
            assert found.reason == "RevisionNotFound"
            assert world.detected("a") == A
            assert world.unreachable("b") is None
            git.refs["main"] = C
            await world.until(lambda: world.detected("a") == C and world.unreachable("a") is None)

    in_world(scene)


def test_a_branch_that_is_rewound_is_announced_again() -> None:
    async def scene(world: World) -> None:
        git = world.remote("git", main=A)
        await world.create("a", "git")
        async with world.running():
            for commit in (A, B, A, C, A):
                git.refs["main"] = commit
                await world.until(lambda commit=commit: world.detected("a") == commit)  # type: ignore[misc]

    in_world(scene)


def test_the_applied_commit_counts_as_known_once_the_annotation_is_removed() -> None:
    async def scene(world: World) -> None:
        git = world.remote("git", main=A)
        await world.create("a", "git")
        key = source_key(url("git"), "main")
        await world.set_status("a", phase="Applied", observedRevision=A, observedSource=key)
        async with world.running():
            await world.until(lambda: len(git.asked) == 3)
            assert world.served() == []
            git.refs["main"] = B
            await world.until(lambda: world.detected("a") == B)

    in_world(scene)


def test_what_others_write_between_two_polls_is_not_undone_until_the_next() -> None:
    async def scene(world: World) -> None:
        git = world.remote("git", main=A)
        await world.create("a", "git")
        async with world.running():
            await world.until(lambda: world.detected("a") == A)
            await anyio.sleep(1)
            await world.annotate("a", detected_revision=B)  # a hook that was faster than the poll
            await anyio.sleep(20)
            assert world.detected("a") == B
            asked = len(git.asked)
            await world.until(lambda: world.detected("a") == A)
            assert len(git.asked) == asked + 1

    in_world(scene)


def test_another_branch_is_polled_at_once_and_the_old_answer_forgotten() -> None:
    async def scene(world: World) -> None:
        world.remote("git", main=A, dev=B)
        other = world.remote("other", dev=C)
        await world.create("a", "git", git_poll_interval="5m")
        async with world.running():
            await world.until(lambda: world.detected("a") == A)
            await world.retarget("a", targetRevision="dev")
            assert await world.until(lambda: world.detected("a") == B) < 1
            await world.retarget("a", repoURL=url("other"))
            assert await world.until(lambda: world.detected("a") == C) < 1
            assert len(other.asked) == 1

    in_world(scene)


def test_full_shas_and_terminating_workspaces_are_not_polled() -> None:
    async def scene(world: World) -> None:
        git = world.remote("git", main=A)
        await world.create("pinned", "git", A)
        await world.create("leaving", "git")
        await world.user.patch(WORKSPACES, NAMESPACE, "leaving", {"metadata": {"finalizers": ["example.com/stay"]}})
        await world.user.delete(WORKSPACES, NAMESPACE, "leaving")
        async with world.running():
            await anyio.sleep(120)
        assert git.asked == []
        assert world.served() == []

    in_world(scene)


def test_a_workspace_that_is_pinned_loses_the_condition_of_its_former_branch() -> None:
    async def scene(world: World) -> None:
        world.remote("git").failure = Failure("GitFailed", "no")
        await world.create("a", "git", git_poll_interval="5s")
        async with world.running():
            await world.until(lambda: world.unreachable("a") is not None)
            await world.retarget("a", targetRevision=A)
            await world.until(lambda: world.unreachable("a") is None)

    in_world(scene)


def test_another_interval_acts_at_once_and_counts_from_the_last_poll() -> None:
    async def scene(world: World) -> None:
        git = world.remote("git", main=A)
        await world.create("a", "git")
        async with world.running():
            await world.until(lambda: len(git.asked) == 1)
            await anyio.sleep(1)
            await world.annotate("a", git_poll_interval="5s")
            await world.until(lambda: len(git.asked) == 3)
            await anyio.sleep(1)
            await world.annotate("a", git_poll_interval="10m")
            await world.until(lambda: len(git.asked) == 4, within=1200)
            await anyio.sleep(90)
            begun = world.clock.monotonic()
            await world.annotate("a", git_poll_interval="60s")
            await world.until(lambda: len(git.asked) == 5)
            assert git.asked[4] - begun < 0.5, "the minute had passed already"
            pauses = [round(b - a) for a, b in itertools.pairwise(git.asked)]
            assert pauses == [5, 5, 600, 90]

    in_world(scene)


def test_failures_that_take_turns_are_told_once_each_in_ten_minutes() -> None:
    """Servers behind one name: different addresses, different troubles."""
    texts = [f"10.0.0.{number}: connection refused" for number in range(3)]
    answers = [Failure("GitFailed", text) for text in texts] + [Failure("UnknownHostKey", "who is it?")]

    async def scene(world: World) -> None:
        git = world.remote("git", main=A)
        git.failure = answers[0]
        await world.create("a", "git", git_poll_interval="5s")

        async def turn() -> None:
            while True:
                git.failure = answers[len(git.asked) % len(answers)]
                await anyio.sleep(1)

        async with world.running(), anyio.create_task_group() as group:
            group.start_soon(turn)
            await world.until(lambda: world.unreachable("a") is not None)
            before, asked = len(world.served()), len(git.asked)
            await anyio.sleep(3600)
            assert len(git.asked) - asked > 600
            assert 2 <= len(world.served()) - before <= 2 * 6 + 1
            git.failure = Failure("RevisionNotFound", "no main")
            answers[:] = [git.failure]
            await world.until(lambda: "no main" in (world.unreachable("a") or NOTHING).message, within=10)
            answers[:] = [Failure("GitAuthenticationFailed", "no")] * 2
            git.failure = answers[0]
            await world.until(lambda: (world.unreachable("a") or NOTHING).message == "no", within=10)
            group.cancel_scope.cancel()

    in_world(scene)


def test_the_smallest_interval_serves_all_entries_of_a_source() -> None:
    async def scene(world: World) -> None:
        git = world.remote("git", main=A)
        await world.create("slow", "git", git_poll_interval="5m")
        await world.create("fast", "git", git_poll_interval="10s")
        async with world.running():
            await world.until(lambda: world.detected("slow") == A)
            git.refs["main"] = B
            assert await world.until(lambda: world.detected("fast") == B) < 11
            assert await world.until(lambda: world.detected("slow") == B) < 0.5  # in the same round

    in_world(scene)


def test_a_failed_patch_is_tried_again_without_another_poll() -> None:
    async def scene(world: World) -> None:
        git = world.remote("git", main=A)
        await world.create("a", "git", git_poll_interval="5m")
        trouble = Answer(code=500, reason="InternalError", message="no")
        world.server.faults.add(Rule(fault=trouble, methods=frozenset({"PATCH"}), path="/workspaces/a", times=3))
        async with world.running():
            await world.until(lambda: world.detected("a") == A)
        assert len(git.asked) == 1

    in_world(scene)


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_time_it_ends_in_the_same_state_and_writes_nothing_twice(seed: int) -> None:
    async def scene(world: World) -> None:
        git = world.remote("git", main=A)
        for number in range(5):
            await world.create(f"w{number}", "git", git_poll_interval="5s")
        rng = random.Random(seed)
        for _ in range(10):
            async with world.running():
                await anyio.sleep(rng.uniform(0, 25))
        git.refs["main"] = B
        async with world.running():
            await world.until(lambda: all(world.detected(f"w{number}") == B for number in range(5)))
        assert len(world.served()) <= 10

    in_world(scene, seed=seed)


def test_equal_credentials_share_a_listing_and_others_do_not() -> None:
    async def scene(world: World) -> None:
        git = world.remote("git", main=A)
        for namespace, password in (("one", b"x"), ("two", b"x"), ("three", b"y")):
            await world.namespace(namespace)
            await world.secret("repo", "git", password, namespace=namespace)
            await world.create("a", "git", namespace=namespace)
        await world.namespace("four")
        await world.create("a", "git", namespace="four")
        namespaces = ("one", "two", "three", "four")
        async with world.running():
            await world.until(lambda: all(world.detected("a", each) == A for each in namespaces))
            await anyio.sleep(40)
        assert len(git.fingerprints) == 3  # x, y, anonymous
        assert "" in git.fingerprints
        lists = [each for each in world.served("list") if "/secrets" in each.path and "/namespaces/" in each.path]
        assert len(lists) == 3  # one for each namespace with Secrets

    in_world(scene)


def test_new_credentials_are_tried_at_once() -> None:
    async def scene(world: World) -> None:
        git = world.remote("git", main=A)
        git.failure = Failure("GitAuthenticationFailed", "who are you?")
        await world.create("a", "git", git_poll_interval="5m")
        async with world.running():
            await world.until(lambda: world.unreachable("a") is not None)
            git.failure = None
            await world.secret("repo", "git", b"open sesame")
            assert await world.until(lambda: world.detected("a") == A) < 1

    in_world(scene)


def test_secrets_that_cannot_be_read_are_an_error_of_the_source_until_they_can() -> None:
    async def scene(world: World) -> None:
        git = world.remote("git", main=A)
        await world.secret("repo", "git", b"x")
        await world.create("a", "git", git_poll_interval="5s")
        denied = Answer(code=403, reason="Forbidden", message="no")
        rule = world.server.faults.add(
            Rule(fault=denied, methods=frozenset({"GET"}), path="/namespaces/default/secrets", times=None)
        )
        async with world.running():
            await world.until(lambda: world.unreachable("a") is not None)
            found = world.unreachable("a")
            assert found is not None
            assert found.reason == "GitAuthenticationFailed"
            assert "repository Secrets cannot be read" in found.message
            assert git.asked == []
            rule.times = 0
            assert await world.until(lambda: world.detected("a") == A and world.unreachable("a") is None) < 6

    in_world(scene)


def test_only_the_leader_polls_and_its_successor_writes_nothing_by_itself() -> None:
    async def scene(world: World) -> None:
        git = world.remote("git", main=A)
        await world.create("a", "git")
        async with world.running():
            await world.until(lambda: world.detected("a") == A)
            async with world.running():  # a standby
                await anyio.sleep(100)
                pauses = [b - a for a, b in itertools.pairwise(git.asked)]
                assert min(pauses) > 29
        written = len(world.served())
        async with world.running():
            asked = len(git.asked)
            await world.until(lambda: len(git.asked) == asked + 2)
        assert len(world.served()) == written == 1

    in_world(scene)


def _storm(world: World, names: list[str]) -> Callable[[], bool]:
    return lambda: all(world.detected(name) for name in names)


def test_first_polls_are_spread_over_the_interval() -> None:
    async def scene(world: World) -> None:
        names = [f"w{number}" for number in range(60)]
        for name in names:
            world.remote(name, main=A)
            await world.create(name, name)
        async with world.running():
            await world.until(_storm(world, names))
        first = sorted(remote.asked[0] for remote in world.remotes.values())
        assert first[-1] - first[0] > 20
        busiest = max(sum(at <= other < at + 3 for other in first) for at in first)
        assert busiest < 20

    in_world(scene)
