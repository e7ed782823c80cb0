"""Checks that references lead somewhere: those to the specification, and those of the specification to tests.

1. "spec §6.2.4", "invariant I5" and "F13" in code and documents name a heading of ``docs/behaviour``.
2. A section sign says whose section it means: "spec" (or the name of another document, "RFC 4253") stands before it.
   The specification's own pages need not say so.
3. A test, a file of tests or a mutation that the specification names exists.
4. A relative link of a Markdown page leads to a file, and to a heading of it.

``scripts/references`` runs it; exit code 1 if a reference dangles, each told as ``path:line: what is wrong``.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

__all__ = ["BEHAVIOUR", "Problem", "main", "problems", "read_tree"]

BEHAVIOUR = "docs/behaviour/"
_ROOT = Path(__file__).parents[1]
_FOLDERS = ("magos", "tests", "docs", "scripts", "deploy", "crds", "samples")
_SUFFIXES = frozenset({"", ".py", ".md", ".yaml", ".yml", ".sh", ".toml"})
_MUTATIONS = "tests/sim/mutations.py"

_SECTION = re.compile(r"§ ?(\d+(?:\.\d+)*)")
_OWNER = re.compile(r"\b(?:(?P<ours>[Ss]pec(?:ification)?)\b|RFC \d+)")
_REACH = 120
"""Characters before a section sign in which its document is looked for: "spec §6.2.6, checks 3 and 4; §5.3; §7.4"."""

_NUMBERED = re.compile(r"(?<![\w+/=.-])(?:I[1-9]\d?|F\d\d)(?![\w+/=])")
_HEADING = re.compile(r"^(#{1,6}) +(.+?) *$", re.MULTILINE)
_ANCHOR = re.compile(r"\d+(?:\.\d+)*(?= )|I\d+\b|F\d\d\b")
_TEST = re.compile(r"`(tests/[\w/.-]+\.py)(?:::(\w+))?`")
_MUTATION = re.compile(r"\bmutation `([^`]+)`")
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, order=True)
class Problem:
    """A reference that leads nowhere; ``line`` counts from 1."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def problems(files: Mapping[str, str], exists: Callable[[str], bool]) -> list[Problem]:
    """Return what dangles in ``files``: texts by their path from the root of the repository.

    ``exists`` tells of any other path whether something is there.
    """
    pages = {path: text for path, text in files.items() if path.startswith(BEHAVIOUR)}
    anchors, found = _anchors(pages)
    for path, text in files.items():
        found += _references(path, text, anchors)
        if path.endswith(".md"):
            found += _links(path, text, files, exists)
    mutations = _mutations(files.get(_MUTATIONS, ""))
    for path, text in pages.items():
        found += _proofs(path, text, files, mutations)
    return sorted(found)


def _anchors(pages: Mapping[str, str]) -> tuple[dict[str, str], list[Problem]]:
    """Return each number with the page that explains it, and the numbers that two headings bear."""
    anchors: dict[str, str] = {}
    twice: list[Problem] = []
    for path, text in pages.items():
        for heading in _HEADING.finditer(text):
            number = _ANCHOR.match(heading[2])
            if number is None:
                continue
            if number[0] in anchors:
                line = _line(text, heading.start())
                twice.append(Problem(path, line, f"{number[0]} is explained in {anchors[number[0]]} already"))
            anchors.setdefault(number[0], path)
    return anchors, twice


def _references(path: str, text: str, anchors: Mapping[str, str]) -> Iterator[Problem]:
    for sign in _SECTION.finditer(text):
        owners = [*_OWNER.finditer(text, max(0, sign.start() - _REACH), sign.start())]
        ours = path.startswith(BEHAVIOUR) if not owners else owners[-1]["ours"] is not None
        if not ours and not owners:
            yield Problem(path, _line(text, sign.start()), f"write 'spec §{sign[1]}', or name the document it is of")
        elif ours and sign[1] not in anchors:
            yield Problem(path, _line(text, sign.start()), f"{BEHAVIOUR} has no section {sign[1]}")
    for number in _NUMBERED.finditer(text):
        if number[0] not in anchors:
            yield Problem(path, _line(text, number.start()), f"{BEHAVIOUR} has no {number[0]}")


def _proofs(path: str, text: str, files: Mapping[str, str], mutations: frozenset[str]) -> Iterator[Problem]:
    for named in _TEST.finditer(text):
        tests = files.get(named[1])
        if tests is None:
            yield Problem(path, _line(text, named.start()), f"there is no {named[1]}")
        elif named[2] and re.search(rf"^\s*(?:async )?def {named[2]}\(", tests, re.MULTILINE) is None:
            yield Problem(path, _line(text, named.start()), f"{named[1]} has no test {named[2]}")
    for named in _MUTATION.finditer(text):
        if named[1] not in mutations:
            yield Problem(path, _line(text, named.start()), f"{_MUTATIONS} has no mutation {named[1]!r}")


def _mutations(source: str) -> frozenset[str]:
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    names = (each.args[0] for each in calls if isinstance(each.func, ast.Name) and each.func.id == "Mutation")
    return frozenset(str(name.value) for name in names if isinstance(name, ast.Constant))


def _links(path: str, text: str, files: Mapping[str, str], exists: Callable[[str], bool]) -> Iterator[Problem]:
    shown = _FENCE.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)
    for link in _LINK.finditer(shown):
        target, _, anchor = link[1].partition("#")
        if "://" in link[1] or link[1].startswith("mailto:"):
            continue
        where = _resolve(path, target) if target else path
        line = _line(text, link.start())
        if where not in files:
            if not exists(where):
                yield Problem(path, line, f"the link {link[1]} leads to no file")
        elif anchor and anchor not in _slugs(files[where]):
            yield Problem(path, line, f"the link {link[1]} leads to no heading of {where}")


def _resolve(path: str, target: str) -> str:
    parts: list[str] = []
    for part in (PurePosixPath(path).parent / target).parts:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
    return "/".join(parts)


def _slugs(text: str) -> frozenset[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    titles = (re.sub(r"[^\w\- ]", "", heading[2].lower()) for heading in _HEADING.finditer(text))
    return frozenset(title.replace(" ", "-") for title in titles)


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def read_tree(root: Path) -> dict[str, str]:
    """Return the texts that may hold references, by their path from ``root``."""
    found = [*root.glob("*.md")]
    for folder in _FOLDERS:
        found += [path for path in (root / folder).rglob("*") if path.suffix in _SUFFIXES and path.is_file()]
    texts: dict[str, str] = {}
    for path in sorted(found):
        if "__pycache__" not in path.parts and path.name != "ssh_known_hosts":
            texts[path.relative_to(root).as_posix()] = path.read_text("utf-8", errors="replace")
    return texts


def main() -> int:
    """Tell what dangles in this repository."""
    found = problems(read_tree(_ROOT), lambda path: (_ROOT / path).exists())
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
