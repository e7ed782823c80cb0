"""Measures the shape of packages from their import statements: ``python -m tests.structure [--check]``.

A *room* is a sub-package or a module directly in the package. An *arrow* is a pair of rooms of which one imports the
other, wherever the import stands and however often (imports for type checkers alone are none). The *floors* are the
rooms of the longest chain of arrows. A *circle* is a set of rooms that all reach each other; where there is one, floors
are counted as if it were one room.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

__all__ = ["LIMITS", "Shape", "arrows_of", "lines_of", "main", "measure"]

_ROOT = Path(__file__).parents[1]
Arrows = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Shape:
    """What is measured of a package, or how much of it is allowed. Shares are of all lines of code, in percent."""

    rooms: int
    floors: int
    arrows: int
    circles: int
    largest_module: int = 400
    import_share: float = 100.0


LIMITS = {
    "magos/runtime": Shape(rooms=9, floors=5, arrows=20, circles=0, largest_module=350, import_share=10.0),
    "magos/reconcilers/workspace": Shape(
        rooms=8, floors=6, arrows=20, circles=0, largest_module=270, import_share=16.5
    ),
}
"""The limits: what each package was designed to be."""


def measure(package: Path, root: Path = _ROOT) -> Shape:
    """Return the shape of a package below ``root``."""
    arrows = arrows_of(package, root)
    code, imports = lines_of(package)
    circles = [circle for circle in _circles(arrows) if len(circle) > 1]
    return Shape(
        rooms=len(arrows),
        floors=_floors(arrows),
        arrows=sum(map(len, arrows.values())),
        circles=len(circles),
        largest_module=max(len(path.read_text("utf-8").splitlines()) for path in package.rglob("*.py")),
        import_share=round(100 * imports / max(code, 1), 1),
    )


def lines_of(package: Path) -> tuple[int, int]:
    """Return how many lines of code a package has, without blanks, comments and docstrings, and how many import."""
    code, imports = 0, 0
    for path in package.rglob("*.py"):
        lines = _code_lines(path)
        code, imports = code + len(lines), imports + len(lines & _import_lines(path))
    return code, imports


def arrows_of(package: Path, root: Path = _ROOT) -> Arrows:
    """Return, for each room of the package, the other rooms that it imports."""
    prefix = ".".join(package.relative_to(root).parts)
    names = {each.stem for each in package.iterdir() if _is_room(each)}
    arrows: dict[str, frozenset[str]] = {}
    for name in sorted(names):
        room = package / name
        paths = sorted(room.rglob("*.py")) if room.is_dir() else [room.with_suffix(".py")]
        imported = {module for path in paths for module in _imports(path)}
        found = {module[len(prefix) + 1 :].split(".")[0] for module in imported if module.startswith(f"{prefix}.")}
        arrows[name] = frozenset((found & names) - {name})
    return arrows


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def _is_room(path: Path) -> bool:
    if path.is_dir():
        return (path / "__init__.py").exists()
    return path.suffix == ".py" and path.stem != "__init__"


def _imports(path: Path) -> Iterator[str]:
    """Yield what a module imports when it runs, as ``package.module`` and ``package.module.name``."""
    for node in _run_time(_parsed(path)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level or node.module is None:
                raise ValueError(f"{path}: a relative import is not followed; write it out")
            yield from (f"{node.module}.{each.name}" for each in node.names)


def _run_time(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from _run_time(node)


def _code_lines(path: Path) -> set[int]:
    """Return the numbers of lines that are neither blank nor comment nor docstring."""
    text = path.read_text("utf-8")
    lines = {number for number, line in enumerate(text.splitlines(), 1) if line.strip() and line.strip()[0] != "#"}
    for node in ast.walk(_parsed(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= _lines(node)
    return lines


def _import_lines(path: Path) -> set[int]:
    """Return the numbers of the lines of import statements and of ``__all__``."""
    found = (node for node in ast.walk(_parsed(path)) if isinstance(node, ast.stmt) and _is_import(node))
    return {line for node in found for line in _lines(node)}


def _is_import(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        return any(ast.unparse(target) == "__all__" for target in node.targets)
    return isinstance(node, ast.Import | ast.ImportFrom)


def _lines(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _reached(arrows: Arrows, start: str) -> frozenset[str]:
    reached: set[str] = set()
    pending = [start]
    while pending:
        for each in arrows[pending.pop()] - reached:
            reached.add(each)
            pending.append(each)
    return frozenset(reached)


def _circles(arrows: Arrows) -> set[frozenset[str]]:
    """Return the rooms in groups: those that reach each other together, every other one alone."""
    reached = {name: _reached(arrows, name) for name in arrows}
    return {frozenset({name, *(each for each in reached[name] if name in reached[each])}) for name in arrows}


def _floors(arrows: Arrows) -> int:
    groups = {name: group for group in _circles(arrows) for name in group}
    heights: dict[frozenset[str], int] = {}

    def height(group: frozenset[str]) -> int:
        if group not in heights:
            below = {groups[each] for name in group for each in arrows[name]} - {group}
            heights[group] = 1 + max(map(height, below), default=0)
        return heights[group]

    return max(map(height, groups.values()), default=0)


def _excesses(name: str, shape: Shape, limit: Shape) -> Iterator[str]:
    for each in fields(Shape):
        is_, most = getattr(shape, each.name), getattr(limit, each.name)
        if is_ > most:
            yield f"{name}: {each.name.replace('_', ' ')} {is_:g}, allowed are {most:g}"


def main(arguments: Iterable[str]) -> int:
    """Print all figures; with ``--check`` return 1 if a limit is exceeded."""
    excesses: list[str] = []
    code, imports = lines_of(_ROOT / "magos")
    print(f"product: {code} lines of code, {100 * imports / code:.1f} % of them imports and __all__")
    for name, limit in LIMITS.items():
        shape = measure(_ROOT / name)
        figures = (
            f"{each.name.replace('_', ' ')} {getattr(shape, each.name):g} of {getattr(limit, each.name):g}"
            for each in fields(Shape)
        )
        print(f"{name}: {', '.join(figures)}")
        excesses += _excesses(name, shape, limit)
    if "--check" not in arguments:
        return 0
    for excess in excesses:
        print(
            f"structure: {excess}; change the code, or the limit in tests/structure.py with the reason", file=sys.stderr
        )
    return 1 if excesses else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
