"""The log of a pod that has ended, over every way in which reading it can be interrupted."""

import tracemalloc
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.api.names import JobType
from magos.api.runnerpod import Stage
from magos.joblog import finished_log, heading, heading_stage
from magos.joblog.pieces import PART
from magos.runtime.client.errors import ApiError
from tests.sim.virtualtime import run_virtual
from tests.unit.joblog.node import BEGIN, SECOND, Break, Container, Entry, Node, lines


def log_of(node: Node, job_type: JobType = JobType.APPLY) -> bytes:
    async def main() -> bytes:
        async with aclosing(finished_log(node.client, node.pod, job_type)) as chunks:
            return b"".join([chunk async for chunk in chunks])

    return run_virtual(main)


def with_output(node: Node, *entries: Entry) -> Node:
    """A finished apply whose ``terraform`` printed the entries."""
    node.ended("fetch")
    node.ended("terraform", *entries)
    node.ended("job")
    return node


def framed(content: bytes) -> bytes:
    return b"=== fetch ===\n=== terraform ===\n" + content + b"=== job ===\n"


def test_stages_come_in_their_order_each_under_its_heading() -> None:
    node = Node()
    for name in ("job", "render", "terraform", "fetch", "istio-proxy"):
        node.ended(name, *lines(f"says {name}".encode(), b"", b" indented"))
    expected = "".join(f"=== {stage} ===\nsays {stage}\n\n indented\n" for stage in Stage)
    assert log_of(node, JobType.PLAN).decode() == expected
    assert b"render" not in log_of(node, JobType.APPLY)


def test_a_heading_is_recognised_by_its_whole_line() -> None:
    assert [heading_stage(heading(stage)) for stage in Stage] == list(Stage)
    assert heading_stage("=== terraform === ") is None


def test_a_connection_that_breaks_at_any_byte_costs_no_line_and_repeats_none() -> None:
    entries = lines(b"one", b"one", b"", b"three", b"four", step=SECOND // 2)
    whole = b"".join(entry.shown for entry in entries)
    expected = framed(b"one\none\n\nthree\nfour\n")
    for in_order in (False, True):
        for position in range(1, len(whole) + 1):
            node = with_output(Node(Break(1 << 30), Break(1 << 30), Break(position, in_order)), *entries)
            assert log_of(node) == expected, (position, in_order)


def test_a_line_that_is_a_little_older_than_the_one_before_it_survives_a_break_between_them() -> None:
    entries = [Entry(BEGIN, b"one"), Entry(BEGIN - 5_000, b"two"), Entry(BEGIN + 1, b"three")]
    for position in range(1, sum(len(entry.shown) for entry in entries) + 1):
        node = with_output(Node(Break(1 << 30), Break(1 << 30), Break(position)), *entries)
        assert log_of(node) == framed(b"one\ntwo\nthree\n"), position


_TEXTS = st.sampled_from([b"", b"a", b"b", b"2026-12-01T16:39:28Z not a time of the node"])


@given(
    steps=st.lists(st.tuples(st.sampled_from([0, 0, 1, 400_000_000, 3 * SECOND, -5_000]), _TEXTS), max_size=30),
    breaks=st.lists(st.builds(Break, st.integers(1, 400)), max_size=3),
    cut=st.lists(st.builds(Break, st.integers(1, 400), st.just(True)), max_size=1),
    newline=st.booleans(),
    chunk=st.integers(1, 64),
)
def test_any_log_over_any_breaks_comes_out_once_and_in_order(
    steps: list[tuple[int, bytes]], breaks: list[Break], cut: list[Break], newline: bool, chunk: int
) -> None:
    at, entries = BEGIN, []
    for number, (step, text) in enumerate(steps):
        at += step
        entries.append(Entry(at, text, newline or number < len(steps) - 1))
    # A server may end a response in order too early, but not twice at the same place.
    node = with_output(Node(Break(1 << 30), Break(1 << 30), *breaks, *cut, chunk=chunk), *entries)
    assert log_of(node) == framed(b"".join(entry.text + b"\n" for entry in entries))


def test_more_lines_of_one_time_than_are_remembered_come_out_once() -> None:
    texts = [b"a" if number % 3 else b"b" for number in range(3000)]
    entries = lines(*texts, step=0)
    node = with_output(Node(Break(1 << 30), Break(1 << 30), Break(90_000), Break(20_000), chunk=4096), *entries)
    assert log_of(node) == framed(b"".join(text + b"\n" for text in texts))


@pytest.mark.parametrize("step", [1, SECOND // 2000, SECOND // 800])
def test_more_lines_than_are_remembered_that_come_again_within_a_second_come_out_once(step: int) -> None:
    texts = [f"line {number % 700}".encode() for number in range(2000)]
    node = with_output(Node(Break(1 << 30), Break(1 << 30), Break(70_000), Break(60_000), chunk=4096))
    node.containers["terraform"].entries = lines(*texts, step=step)
    assert log_of(node) == framed(b"".join(text + b"\n" for text in texts))


def test_lines_that_the_node_rotated_away_meanwhile_do_not_hide_newer_ones() -> None:
    entries = lines(b"one", b"two", b"three")
    first = len(entries[0].shown) + len(entries[1].shown)
    node = Node(Break(1 << 30), Break(1 << 30), Break(first))
    terraform = with_output(node, *entries).containers["terraform"]

    async def main() -> bytes:
        content = b""
        async with aclosing(finished_log(node.client, node.pod, JobType.APPLY)) as chunks:
            async for chunk in chunks:
                content += chunk
                if chunk.startswith(b"two"):
                    terraform.entries = lines(b"four", begin=BEGIN + 9 * SECOND)
        return content

    assert run_virtual(main) == framed(b"one\ntwo\nfour\n")


@pytest.mark.parametrize("length", [PART - 1, PART, PART + 1, 2 * PART, 5 * PART + 3])
@pytest.mark.parametrize("position", [PART // 2, PART + 100, 2 * PART + 5, 4 * PART])
def test_a_line_of_megabytes_survives_a_break(length: int, position: int) -> None:
    text = bytes(number % 251 for number in range(1000)) * (length // 1000 + 1)
    text = text.replace(b"\n", b"_")[:length]
    node = with_output(Node(Break(1 << 30), Break(1 << 30), Break(position), chunk=65536), *lines(text, b"next"))
    assert log_of(node) == framed(text + b"\nnext\n")


def test_memory_does_not_grow_with_the_log() -> None:
    node = with_output(Node(chunk=65536), *[Entry(BEGIN + number, b"x" * 10_000) for number in range(1_000)])

    async def main() -> int:
        size = 0
        async with aclosing(finished_log(node.client, node.pod, JobType.APPLY)) as chunks:
            tracemalloc.start()
            async for chunk in chunks:
                size += len(chunk)
            return size

    assert run_virtual(main) > 10_000_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4_000_000


def test_what_a_stage_did_not_print_is_told_in_brackets() -> None:
    node = Node()
    node.ended("fetch", *lines(b"cloned"))
    node.containers["terraform"] = Container(refusal=(404, "container not found"))
    gone = b"unable to retrieve container logs for containerd://1a2b"
    node.containers["job"] = Container({"terminated": {"exitCode": 0}}, [Unstamped(BEGIN, gone, False)])
    assert log_of(node, JobType.PLAN).decode() == (
        "=== fetch ===\ncloned\n"
        "=== terraform ===\n[the log of this stage is gone: container not found]\n"
        "=== render ===\n[no output of this stage: waiting to start]\n"
        "=== job ===\n[the log of this stage is gone: unable to retrieve container logs for containerd://1a2b]\n"
    )


class Unstamped(Entry, frozen=True):
    @property
    def shown(self) -> bytes:
        return self.text


def test_a_pod_that_is_gone_or_replaced_is_an_error() -> None:
    for uid in ("", "another"):
        node = with_output(Node())
        node.containers["fetch"].refusal = (404, "not found")
        node.uid = uid
        with pytest.raises(ApiError) as caught:
            log_of(node)
        assert caught.value.not_found


def test_trouble_that_passes_is_waited_out_and_trouble_that_stays_is_an_error() -> None:
    node = with_output(Node(), *lines(b"one"))
    node.down = 4
    assert log_of(node) == framed(b"one\n")
    node.down = 5
    with pytest.raises(ApiError, match="connection refused"):
        log_of(node)
    node.down = 0
    node.containers["terraform"].refusal = (403, "pods/log is forbidden")
    with pytest.raises(ApiError, match="forbidden"):
        log_of(node)
