"""Which names and links of a tree are safe, against what a real file system does with them."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.git.paths import TreePath, display, is_git_alias, link_leaves_tree, name_problem

STEPS = st.sampled_from(["a", "b", "c", "..", ".", ""])
TARGETS = st.lists(STEPS, min_size=1, max_size=5).map("/".join).filter(bool)
LINKS = st.dictionaries(
    st.sampled_from([("a", "l1"), ("a", "b", "l2"), ("l3",), ("a", "c")]), TARGETS | st.just("/etc"), min_size=1
)


@pytest.mark.parametrize(
    "name",
    [".git", ".GIT", ".Git", "git~1", "GIT~1", "git~12", ".git ", ".git.", ".git . ", ".git::$INDEX_ALLOCATION",
     ".g\u200cit", "\ufeff.git", ".gi\u200dt", ".git:stream", "\u202a.GIT\u202e"],
)  # fmt: skip
def test_every_name_some_file_system_takes_for_dot_git_is_refused(name: str) -> None:
    assert is_git_alias(name)
    assert name_problem(name.encode()) is not None
    assert name_problem(f"x\\{name}\\hooks".encode()) is not None


@pytest.mark.parametrize("name", [b".gitignore", b".gitmodules", b"git", b"agit~1", b".github", b"main.tf", b"\xff"])
def test_ordinary_names_pass(name: bytes) -> None:
    assert name_problem(name) is None


@given(st.binary(max_size=12))
def test_an_accepted_name_is_one_component_inside_its_directory(name: bytes) -> None:
    if name_problem(name) is None:
        assert name not in {b"", b".", b".."}
        assert b"/" not in name
        assert b"\0" not in name
        assert display((name,))


@given(LINKS)
def test_a_link_that_passes_stays_inside_for_the_kernel_too(links: dict[tuple[str, ...], str]) -> None:
    encoded = {tuple(part.encode() for part in path): target.encode() for path, target in links.items()}
    leaving = [path for path in encoded if link_leaves_tree(path, encoded)]
    if leaving:
        return  # the export is refused as a whole
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "tree").resolve()
        (root / "a" / "b").mkdir(parents=True)
        for path, target in links.items():
            root.joinpath(*path).symlink_to(target)
        for path in links:
            assert root.joinpath(*path).resolve().is_relative_to(root)


@pytest.mark.parametrize(
    ("target", "leaves"),
    [("../x", False), ("../../x", True), ("/etc/passwd", True), (".", False), ("", True), ("../d/../../y", True),
     ("hop/../../../x", True), ("hop", False), ("loop", True)],
)  # fmt: skip
def test_links_are_followed_through_other_links(target: str, leaves: bool) -> None:
    links: dict[TreePath, bytes] = {(b"d", b"l"): target.encode(), (b"d", b"hop"): b"..", (b"d", b"loop"): b"loop"}
    assert link_leaves_tree((b"d", b"l"), links) is leaves
