"""What a target revision means among the references a server advertises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.git.errors import GitError, GitReason
from magos.git.lsremote import LsRemoteRequest, candidates, ls_remote, resolve
from magos.git.url import parse

URL = parse("ssh://me@example.org/org/app.git")
A, B, C, D = ("a" * 40, "b" * 40, "c" * 40, "d" * 40)
SHAS = st.from_regex(r"[0-9a-f]{40}", fullmatch=True)
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9/._\-]{0,20}", fullmatch=True)


@pytest.mark.parametrize(
    ("target", "ref", "sha"),
    [
        ("trunk", "refs/heads/trunk", A),
        ("release/2024.1", "refs/heads/release/2024.1", B),
        ("refs/heads/trunk", "refs/heads/trunk", A),
        ("refs/tags/v1", "refs/tags/v1", C),
        ("v1", "refs/tags/v1", C),
        ("light", "refs/tags/light", A),
        ("refs/pull/7/head", "refs/pull/7/head", D),
        ("deadbee", "refs/heads/deadbee", D),
        (D, None, D),
    ],
)
def test_branches_tags_and_full_names_are_found_without_a_head(target: str, ref: str | None, sha: str) -> None:
    refs = {
        "refs/heads/trunk": A,
        "refs/heads/release/2024.1": B,
        "refs/heads/deadbee": D,
        "refs/tags/v1": B,
        "refs/tags/v1^{}": C,
        "refs/tags/light": A,
        "refs/pull/7/head": D,
    }
    found = resolve(target, refs, URL)
    assert (found.ref, found.sha) == (ref, sha)


def test_a_branch_wins_over_a_tag_of_the_same_name() -> None:
    refs = {"refs/tags/release": A, "refs/heads/release": B}
    assert resolve("release", refs, URL).sha == B
    assert resolve("refs/tags/release", refs, URL).sha == A


def test_head_means_the_remote_head_unless_a_branch_is_called_so() -> None:
    assert resolve("HEAD", {"HEAD": A, "refs/heads/main": A}, URL).sha == A
    assert resolve("HEAD", {"HEAD": A, "refs/heads/HEAD": B}, URL).sha == B


@pytest.mark.parametrize(
    ("target", "hint"),
    [("1a2b3c4", "full SHA"), ("A" * 40, "lower case"), ("nope", "targetRevision"), ("HEAD", "name a branch"),
     ("refs/heads/nope", "targetRevision")],
)  # fmt: skip
def test_what_is_not_advertised_is_not_found_with_a_hint_and_without_userinfo(target: str, hint: str) -> None:
    with pytest.raises(GitError, match=hint) as caught:
        resolve(target, {"refs/heads/main": A}, URL)
    assert caught.value.reason is GitReason.REVISION_NOT_FOUND
    assert "ssh://example.org/org/app.git" in caught.value.message
    assert "me@" not in caught.value.message


def test_a_full_sha_is_answered_without_asking_the_server() -> None:
    request = LsRemoteRequest("https://nowhere.invalid/x", A, ("https",))
    assert ls_remote(request).sha == A


@given(NAMES, st.dictionaries(NAMES.map("refs/heads/{}".format) | NAMES.map("refs/tags/{}".format), SHAS))
def test_the_answer_is_always_one_of_the_advertised_commits_and_the_best_candidate(
    target: str, refs: dict[str, str]
) -> None:
    if not set(candidates(target)) & set(refs) and target not in {A, B, C, D}:
        with pytest.raises(GitError):
            resolve(target, refs, URL)
        return
    found = resolve(target, refs, URL)
    if found.ref is None:
        assert found.sha == target
        return
    best = next(name for name in candidates(target) if name in refs)
    assert (found.ref, found.sha) == (best, refs[best])
