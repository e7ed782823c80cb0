"""What the objects behind tags are: read from packs of any shape, remembered within a bound."""

import hashlib
import struct
import threading
import zlib
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from magos.bounds import GIT_TAGS, GIT_TAGS_KNOWN
from magos.git.budget import POLL, Budget
from magos.git.errors import GitError, GitReason
from magos.git.peek import KINDS, Kind, Peek, Tip
from magos.git.remote import Remote
from magos.git.tags import Tags, commit_of

_NUMBERS = {kind: number for number, kind in KINDS.items()}
URL = "https://example.org/r.git"


def made(kind: Kind, content: bytes) -> tuple[str, bytes]:
    """Return the ID of an object and how a pack has it."""
    size, number = len(content), _NUMBERS[kind] << 4
    head = [number | (size & 15)]
    size >>= 4
    while size:
        head[-1] |= 0x80
        head.append(size & 0x7F)
        size >>= 7
    sha = hashlib.sha1(f"{kind} {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()
    return sha, bytes(head) + zlib.compress(content)


def tag_of(sha: str, kind: Kind) -> tuple[str, bytes]:
    return made(Kind.TAG, f"object {sha}\ntype {kind}\ntag x\ntagger a <a> 0 +0000\n\nx\n".encode())


def pack(*objects: bytes) -> bytes:
    content = struct.pack(">4sLL", b"PACK", 2, len(objects)) + b"".join(objects)
    return content + hashlib.sha1(content, usedforsecurity=False).digest()


def read(content: bytes, wanted: str, step: int = 2**20) -> Peek:
    peek = Peek([wanted])
    for place in range(0, len(content), step):
        peek.feed(content[place : place + step])
    return peek


@given(
    st.sampled_from([Kind.COMMIT, Kind.TREE, Kind.BLOB]),
    st.binary(max_size=5000),
    st.integers(0, 4),
    st.integers(1, 3000),
    st.randoms(use_true_random=False),
)
def test_tags_of_tags_are_followed_whatever_the_order_and_the_pieces(
    kind: Kind, content: bytes, tags: int, step: int, order: Any
) -> None:
    end = made(kind, content)
    objects, last, named = [end[1], made(Kind.BLOB, b"other")[1]], end[0], kind
    for _ in range(tags):
        (last, raw), named = tag_of(last, named), Kind.TAG
        objects.append(raw)
    order.shuffle(objects)
    peek = read(pack(*objects), last, step)
    assert peek.done
    assert peek.tips() == {last: Tip(kind, end[0], annotated=tags > 0)}


def test_a_transfer_can_end_as_soon_as_a_tag_is_there() -> None:
    commit, _ = made(Kind.COMMIT, b"tree x")
    tag, raw = tag_of(commit, Kind.COMMIT)
    content = pack(raw, made(Kind.BLOB, bytes(10**6))[1])
    assert read(content[: len(raw) + 12], tag).done


def test_a_delta_leaves_the_rest_to_others_and_what_they_find_counts() -> None:
    commit, _ = made(Kind.COMMIT, b"tree x")
    inner, _ = tag_of(commit, Kind.COMMIT)
    outer, raw = tag_of(inner, Kind.TAG)
    peek = read(pack(raw, b"\x62\x01" + zlib.compress(b"xx")), outer)
    assert not peek.done
    assert peek.missing() == inner
    peek.learn(inner, Kind.TAG, f"object {commit}\ntype commit\n".encode())
    assert peek.tips() == {outer: Tip(Kind.COMMIT, commit, annotated=True)}


@given(st.binary(max_size=300), st.integers(1, 50))
@example(struct.pack(">4sLL", b"PACK", 2, 1) + b"\xff" * 40, 1)
@example(struct.pack(">4sLL", b"PACK", 2, 1) + b"\x11" + zlib.compress(bytes(10**6)), 7)
def test_garbage_tells_nothing(content: bytes, step: int) -> None:
    assert read(content, "0" * 40, step).tips() == {}


def test_a_tag_that_lies_about_its_object_leads_to_what_the_object_is() -> None:
    tree, raw_tree = made(Kind.TREE, b"")
    tag, raw_tag = tag_of(tree, Kind.TAG)
    assert read(pack(raw_tag, raw_tree), tag).missing() == tree


@pytest.mark.parametrize(
    ("tip", "told"),
    [
        (Tip(Kind.TREE, "a" * 40, annotated=True), "refs/tags/v1 is a tag of a tree, not a commit"),
        (Tip(Kind.BLOB, "a" * 40), "refs/tags/v1 is a blob, not a commit"),
        (Tip(Kind.TAG, "a" * 40), "refs/tags/v1 is a damaged tag, not a commit"),
    ],
)
def test_what_is_no_commit_is_named_with_its_reference(tip: Tip, told: str) -> None:
    with pytest.raises(GitError, match=told) as caught:
        commit_of(tip, "refs/tags/v1", URL)
    assert caught.value.reason is GitReason.REVISION_NOT_FOUND
    assert commit_of(Tip(Kind.COMMIT, "b" * 40), "refs/tags/v1", URL) == "b" * 40


class Server:
    """Sends the tags that it is asked for and counts the questions."""

    def __init__(self, url: str = URL) -> None:
        self.access = SimpleNamespace(url=url)
        self.asked: list[str] = []

    def peek(self, wants: list[str], depth: int | None, seen: Peek) -> None:
        assert depth == 1
        self.asked += wants
        for want in wants:
            seen.learn(want, Kind.COMMIT, b"")


def tips(tags: Tags, server: Server, *ids: str) -> None:
    assert set(tags.tips(cast("Remote", server), ids)) == set(ids)


def test_bound_git_tags_known() -> None:
    assert Tags()._limit == GIT_TAGS_KNOWN.limit
    tags, server = Tags(limit=3), Server()
    for each in "abcad":
        tips(tags, server, each * 40)
    assert len(tags) == 3
    server.asked.clear()
    tips(tags, server, *(each * 40 for each in "abcd"))
    assert server.asked == ["b" * 40], "the least recently used is forgotten"
    other = Server("https://example.org/other.git")
    tips(tags, other, "a" * 40)
    assert other.asked == ["a" * 40], "what one repository sent is no answer for another"


def test_bound_git_tags() -> None:
    assert POLL.inflated == 4 * POLL.object == 4 * POLL.content == 4 * GIT_TAGS.limit
    budget = Budget(POLL)
    budget.packed(GIT_TAGS.limit, URL)
    with pytest.raises(GitError):
        budget.packed(1, URL)


def test_threads_may_ask_at_a_time() -> None:
    tags = Tags(limit=5)
    threads = [
        threading.Thread(
            target=lambda: tags.tips(cast("Remote", Server()), [f"{number:040x}" for number in range(200)])
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tags) == 5
