"""The command line's exit codes and error messages."""

import sys
from pathlib import Path

import pytest

from magos.cli import main as command_line
from magos.cli.main import main
from magos.errors import ConfigurationError, MagosError


def _ends(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_version_names_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert _ends(["version"]) == 0
    assert capsys.readouterr().out.startswith("magos ")


def test_an_unknown_command_is_wrong_usage() -> None:
    assert _ends(["make-coffee"]) == 2


@pytest.mark.parametrize(
    ("command", "module"),
    [("assets", "magos.local.programs.assets"), ("demo", "magos.cli.demo")],
)
def test_an_installation_without_the_one_machine_mode_says_how_to_install_it(
    command: str, module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    assert _ends([command]) == 1
    printed = capsys.readouterr().err
    assert f"has no module {module}; install Magos with pip install 'magos[local]'" in printed


@pytest.mark.parametrize(("found", "code"), [(None, 3), ("Project shop", 0)])
def test_a_project_that_does_not_exist_ends_with_3_and_names_the_namespace(
    found: str | None, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def load(*_: object) -> str | None:
        return found

    monkeypatch.setattr("magos.cli.tree.load_tree", load)
    assert _ends(["tree", "shop", "-n", "demo"]) == code
    printed = capsys.readouterr()
    if found is None:
        assert printed.err == (
            "magos: namespace demo has no Project shop and no Workspace of it; name another namespace with -n\n"
        )
    else:
        assert printed.out == "Project shop\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MagosError("the disk is full"), 1),
        (ConfigurationError("the flag is wrong"), 2),
        (ExceptionGroup("tasks", [ExceptionGroup("more", [MagosError("the disk is full")])]), 1),
    ],
)
def test_an_error_for_people_is_one_line_also_out_of_a_task_group(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def load(*_: object) -> str | None:
        raise error

    monkeypatch.setattr("magos.cli.tree.load_tree", load)
    assert _ends(["tree", "shop"]) == code
    assert capsys.readouterr().err in ("magos: the disk is full\n", "magos: the flag is wrong\n")


def test_an_unexpected_error_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    async def load(*_: object) -> str | None:
        raise ExceptionGroup("tasks", [MagosError("expected"), ZeroDivisionError()])

    monkeypatch.setattr("magos.cli.tree.load_tree", load)
    with pytest.raises(ExceptionGroup):
        main(["tree", "shop"])


def test_the_cache_folder_follows_the_xdg_convention(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert command_line._cache() == tmp_path / "magos"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert command_line._cache() == tmp_path / ".cache" / "magos"
