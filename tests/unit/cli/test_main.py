"""The command line's exit codes and error messages."""

import subprocess
import sys
from pathlib import Path

import click
import pytest

from magos.cli.failures import NotAllowed, NotFound, TimedOut
from magos.cli.local import cache_folder
from magos.cli.main import COMMANDS, cli, main
from magos.cli.session import Session, called_by
from magos.errors import ConfigurationError, MagosError
from magos.runtime.client.errors import ApiError, Status
from tests.unit.cli.shop import Shop


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


def test_a_project_that_does_not_exist_ends_with_3_and_names_the_namespace(shop: Shop) -> None:
    ended = shop("tree", "shop", "-n", "default")
    assert ended.code == 3
    assert ended.err == (
        "magos: namespace default has no Project shop and no Workspace of it; name another namespace with -n\n"
    )


def _status(code: int) -> ApiError:
    return ApiError("the API server said no", answer=Status(code=code))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MagosError("the disk is full"), 1),
        (ConfigurationError("the flag is wrong"), 2),
        (ExceptionGroup("tasks", [ExceptionGroup("more", [MagosError("the disk is full")])]), 1),
        (NotFound("nobody is there"), 3),
        (NotAllowed("you may not"), 4),
        (TimedOut("it took too long"), 5),
        (_status(404), 3),
        (_status(403), 4),
        (_status(401), 4),
        (_status(409), 1),
        (_status(0), 1),
    ],
)
def test_an_error_for_people_is_one_line_with_its_exit_code_also_out_of_a_task_group(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Session, "on_cluster", fail)
    assert _ends(["tree", "shop"]) == code
    printed = capsys.readouterr().err
    assert printed.startswith("magos: ")
    assert printed.count("\n") == 1


def test_an_unexpected_error_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ExceptionGroup("tasks", [MagosError("expected"), ZeroDivisionError()])

    monkeypatch.setattr(Session, "on_cluster", fail)
    with pytest.raises(ExceptionGroup):
        main(["tree", "shop"])


def test_the_cache_folder_follows_the_xdg_convention(tmp_path: Path) -> None:
    assert cache_folder(Session(environ={"XDG_CACHE_HOME": str(tmp_path)})) == tmp_path / "magos"
    assert cache_folder(Session(environ={"HOME": str(tmp_path)})) == tmp_path / ".cache" / "magos"


def test_the_help_has_every_command_with_the_words_that_its_own_help_begins_with(shop: Shop) -> None:
    context = click.Context(cli)
    for name, (_, text) in COMMANDS.items():
        command = cli.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert " ".join((command.help or "").split()).startswith(text.removesuffix("."))
    printed = shop("--help").out
    assert all(f"  {name} " in printed for name in COMMANDS)


def test_the_help_needs_no_module_of_a_command() -> None:
    script = "import sys; from magos.cli.main import cli; import contextlib, io\n"
    script += "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): cli(['--help'])\n"
    script += "print([m for m in sys.modules if m.partition('.')[0] in"
    script += " ('msgspec', 'anyio', 'aiohttp', 'httpx', 'bcrypt', 'yaml')])"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


@pytest.mark.parametrize(
    ("argument", "name"),
    [
        ("/usr/bin/magos", "magos"),
        ("/usr/bin/kubectl-magos", "kubectl magos"),
        ("C:\\bin\\kubectl-magos.exe", "kubectl magos"),
        ("__main__.py", "magos"),
    ],
)
def test_messages_use_the_name_that_the_program_was_called_by(argument: str, name: str) -> None:
    assert called_by(argument) == name
    assert Session(program=name).spoken("magos logs a") == f"{name} logs a"
    assert Session(program=name).spoken("kubectl get pods") == "kubectl get pods"


def test_the_help_of_a_plugin_uses_its_name(shop: Shop) -> None:
    shop.program = "kubectl magos"
    assert shop("approve", "--help").out.startswith("Usage: kubectl magos approve ")
