"""What ``scripts/structure`` measures, on packages whose shape is known."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import structure
from tests.structure import Shape, arrows_of, lines_of, measure


def package(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in {"__init__.py": "", **files}.items():
        path = root / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root / "shop"


FLAT = {
    "base.py": "",
    "middle.py": "import shop.base\n",
    "rooms/__init__.py": "",
    "rooms/one.py": "from shop import base\nfrom shop.rooms import two\nfrom shop.base import x, y\n",
    "rooms/two.py": "def late():\n    from shop.middle import z\n",
    "notes/readme.txt": "",
}


def test_rooms_are_sub_packages_and_modules_and_arrows_their_imports(tmp_path: Path) -> None:
    shop = package(tmp_path, FLAT)
    assert arrows_of(shop, tmp_path) == {
        "base": frozenset(),
        "middle": frozenset({"base"}),
        "rooms": frozenset({"base", "middle"}),
    }
    shape = measure(shop, tmp_path)
    assert (shape.rooms, shape.floors, shape.arrows, shape.circles) == (3, 3, 3, 0)


def test_a_circle_is_found_through_lazy_imports_and_counts_as_one_floor(tmp_path: Path) -> None:
    circle = {"base.py": "def late():\n    import shop.rooms.one\n"}
    shape = measure(package(tmp_path, {**FLAT, **circle}), tmp_path)
    assert (shape.floors, shape.arrows, shape.circles) == (1, 4, 1)


def test_imports_for_type_checkers_are_no_arrows(tmp_path: Path) -> None:
    typed = {"base.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from shop.rooms.one import X\n"}
    assert measure(package(tmp_path, {**FLAT, **typed}), tmp_path).circles == 0


def test_a_relative_import_is_not_overlooked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="relative import"):
        arrows_of(package(tmp_path, {"base.py": "from . import other\n"}), tmp_path)


def test_lines_of_code_are_neither_blank_nor_comment_nor_docstring(tmp_path: Path) -> None:
    text = '"""About\nthis."""\n\n# why\nimport os\nfrom a import (\n    b,\n)\n\n__all__ = ["x"]\n\nx = """a\nb"""\n'
    assert lines_of(package(tmp_path, {"one.py": text})) == (7, 5)


def test_a_limit_that_is_exceeded_fails_the_check_and_says_which(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert structure.main(["--check"]) == 0
    monkeypatch.setitem(structure.LIMITS, "magos/runtime", Shape(rooms=9, floors=4, arrows=20, circles=0))
    assert structure.main([]) == 0
    assert structure.main(["--check"]) == 1
    assert "structure: magos/runtime: floors 5, allowed are 4" in capsys.readouterr().err
