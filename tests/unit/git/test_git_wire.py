"""What comes from a remote: counted on every channel, and a listing keeps what was asked for and no more."""

import io
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from magos.bounds import GIT_CONTENT, GIT_LISTING, GIT_OBJECTS, GIT_TALK, SSH_HEAD, SSH_TAIL
from magos.git.budget import Budget, BudgetLimits
from magos.git.deadline import Deadline
from magos.git.diagnostics import Diagnostics, Ring
from magos.git.errors import GitError
from magos.git.url import parse
from magos.git.wire import Listing, Wire

URL = parse("https://example.org/r.git")
SHA = b"1234567890" * 4
WANTED = (b"refs/heads/main", b"HEAD")


def packet(content: bytes) -> bytes:
    return f"{len(content) + 4:04x}".encode() + content


def through(stream: bytes, names: tuple[bytes, ...] = WANTED) -> bytes:
    """Everything that a listing hands on, read as the library reads packets."""
    listing = Listing(io.BytesIO(stream).read, frozenset([*names, *(name + b"^{}" for name in names)]), URL)
    out = b""
    while data := listing.read(4):
        out += data
        if re.fullmatch(rb"[0-9a-f]{4}", data) and int(data, 16) > 4:
            out += listing.read(int(data, 16) - 4)
    return out


SHAS = st.sampled_from([SHA, b"f" * 64, b"unborn"])
NAMES = st.sampled_from([*WANTED, b"refs/heads/main/1", b"refs/heads/mai", b"refs/heads/main^{}", b"refs/tags/v1"])
REFERENCES = st.builds(lambda sha, name: b"%b %b\n" % (sha, name), SHAS, NAMES)
OTHERS = st.sampled_from(
    [b"version 2\n", b"agent=x\n", b"ERR go away\n", b"# service=git-upload-pack\n", b"\0", b"x y"]
)


@given(st.lists(REFERENCES | OTHERS, max_size=12))
def test_a_listing_hands_on_wanted_references_and_whatever_is_none(contents: list[bytes]) -> None:
    def is_wanted(content: bytes) -> bool:
        found = re.fullmatch(rb"(?:unborn|[0-9a-f]{40}|[0-9a-f]{64}) (\S+)\n", content)
        return found is None or found[1].removesuffix(b"^{}") in WANTED

    stream = b"".join(map(packet, contents)) + b"0000"
    assert through(stream) == b"".join(packet(each) for each in contents if is_wanted(each)) + b"0000"


@given(st.binary(max_size=200))
@example(b"")
@example(b"00")
@example(b"0009abc")
@example(b"ffff")
@example(b"-001abc")
@example(b" 8 abcd")
def test_what_is_no_packet_is_handed_on_as_it_is(stream: bytes) -> None:
    out = through(stream, ())
    assert stream.startswith(out) or b" " in stream, "nothing is invented"


def test_the_first_reference_of_an_old_protocol_keeps_its_capabilities() -> None:
    first = packet(SHA + b" refs/heads/other\0shallow agent=x\n")
    assert through(first + b"0000") == first + b"0000"


def test_a_wanted_reference_keeps_the_attributes_that_are_known_and_no_others() -> None:
    line = SHA + b" HEAD symref-target:refs/heads/main what:is peeled:" + SHA + b"\n"
    expected = SHA + b" HEAD symref-target:refs/heads/main peeled:" + SHA + b"\n"
    assert through(packet(line)) == packet(expected)


def test_bound_git_listing() -> None:
    line = packet(SHA + b" refs/heads/main\n")
    fits = line * (GIT_LISTING.limit // len(line))
    assert through(fits) == fits
    with pytest.raises(GitError, match="more than 256 KiB"):
        through(fits + line)
    unwanted = packet(SHA + b" refs/pull/1/head\n") * 100_000
    assert through(unwanted) == b""


def wire(limits: BudgetLimits, seconds: float = 60.0) -> Wire:
    return Wire(URL, Deadline(seconds, "asking"), Budget(limits))


def test_bound_git_talk() -> None:
    assert BudgetLimits().talk == GIT_TALK.limit
    budget = Budget(BudgetLimits(talk=1000, content=10_000))
    budget.received(900, URL)
    budget.packed(900, URL)
    budget.received(1000, URL)
    assert budget.spent is None
    with pytest.raises(GitError, match="of references and messages") as caught:
        budget.received(1, URL)
    assert budget.spent is caught.value, "whoever finds its channel closed asks why"


def test_bound_git_content() -> None:
    assert BudgetLimits().content == GIT_CONTENT.limit
    budget = Budget(BudgetLimits(content=1000))
    budget.packed(1000, URL)
    with pytest.raises(GitError, match="of history"):
        budget.packed(1, URL)
    assert budget.spent is not None


def test_bound_git_objects() -> None:
    assert BudgetLimits().objects == GIT_OBJECTS.limit
    budget = Budget(BudgetLimits(objects=1000))
    budget.announced(600, URL)
    with pytest.raises(GitError, match="1,000 objects"):
        budget.announced(401, URL)


def test_nothing_is_taken_after_the_deadline() -> None:
    late = wire(BudgetLimits(), seconds=0.0)
    with pytest.raises(GitError, match="took longer"):
        late.received(1)


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_a_ring_holds_no_more_than_it_may_and_a_short_text_whole(pieces: list[bytes]) -> None:
    ring = Ring(head=50, tail=30)
    for piece in pieces:
        ring.write(piece)
        assert ring.held() <= 80
    whole = b"".join(pieces)
    if len(whole) <= 80:
        assert ring.text() == whole.decode(errors="replace")


@given(st.lists(st.from_regex(r"[a-z]{0,30}", fullmatch=True), min_size=1, max_size=20))
def test_a_ring_tells_whole_lines_only(lines: list[str]) -> None:
    """What is cut off in the middle could be half of a secret, which nobody would recognise."""
    ring = Ring(head=40, tail=40)
    ring.write("".join(f"{line}\n" for line in lines).encode())
    told = ring.text().split("\n")
    assert set(told) <= {*lines, ""}


def test_bound_ssh_head() -> None:
    ring = Ring()
    ring.write(b"first\n" + b"x" * 10**6 + b"\n")
    assert ring.held() == SSH_HEAD.limit + SSH_TAIL.limit
    assert ring.text().startswith("first\n")


def test_bound_ssh_tail() -> None:
    ring = Ring()
    for _ in range(1000):
        ring.write(b"x" * 1000 + b"\n")
        assert ring.held() <= SSH_HEAD.limit + SSH_TAIL.limit
    ring.write(b"last\n")
    assert ring.text().endswith("\nlast\n")


def test_a_child_that_says_too_much_is_ended_and_what_it_said_first_and_last_is_kept() -> None:
    counted = wire(BudgetLimits(talk=10**6))
    diagnostics = Diagnostics(counted.received)
    child = diagnostics.start(["sh", "-c", "echo first >&2; cat /dev/zero >&2"])
    with child:
        assert child.wait(20) == -9
    diagnostics.close()
    assert diagnostics.text(0).startswith("first\n")
    with pytest.raises(GitError, match="of references and messages"):
        counted.received(1)


def test_what_a_child_says_while_it_ends_is_waited_for() -> None:
    diagnostics = Diagnostics(wire(BudgetLimits()).received)
    with diagnostics.start(["sh", "-c", "exec 1>&-; read x; echo last words >&2"]) as child:
        assert child.stdout is not None
        assert child.stdout.read() == b""
        assert child.stdin is not None
        child.stdin.write(b"\n")
        assert diagnostics.text(60) == "last words\n"
