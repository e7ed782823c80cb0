"""The page about the command line, out of the commands themselves."""

from collections.abc import Iterator

import click
from msgspec import Struct

from magos.cli.failures import ExitCode
from magos.cli.main import COMMANDS, cli
from magos.cli.serverflags import CA_FILE, SERVER, TOKEN
from magos.errors import InvariantViolation

_ENVIRONMENT = (
    ("KUBECONFIG", "The kubeconfig, as for kubectl; several paths are merged."),
    (SERVER, "URL of the API server of Magos, for `--server`."),
    (TOKEN, "Token for it, for `--token`; else the one that `magos login` has kept."),
    (CA_FILE, "Authorities of its certificate, for `--ca-file`."),
    ("XDG_CONFIG_HOME", "Logins are kept below `magos/logins` there (default `~/.config`)."),
    ("XDG_CACHE_HOME", "Programs of the one-machine mode are kept below `magos` there (default `~/.cache`)."),
    ("KUBEBUILDER_ASSETS", "Folder with programs for the one-machine mode."),
)
_ENDINGS = {
    ExitCode.SUCCESS: "what was asked for is done; with `--wait` and `--watch` it ended well",
    ExitCode.FAILURE: "it failed, or was refused for its state: a conflict, no plan that waits, a run that failed",
    ExitCode.USAGE: "a flag, an argument or the configuration is wrong",
    ExitCode.NOT_FOUND: "the object, run or log does not exist",
    ExitCode.NOT_ALLOWED: "whoever asks may not do it, or is not known",
    ExitCode.TIMED_OUT: "`--timeout` has passed",
}

Row = tuple[str, ...]


class CommandPage(Struct, frozen=True, kw_only=True):
    """A command: the words that lead to it, its usage, its help, and its flags as rows."""

    name: str
    usage: str
    help: str
    flags: tuple[Row, ...]


def environment_rows() -> tuple[Row, ...]:
    """Return the variables that the command line reads, with what they are for."""
    return tuple((f"`{name}`", meaning) for name, meaning in _ENVIRONMENT)


def exit_rows() -> tuple[Row, ...]:
    """Return every exit code with what it says."""
    if missing := set(ExitCode) - _ENDINGS.keys():
        raise InvariantViolation(f"say in magos/reference/commandline.py what {missing} means")
    return tuple((str(int(code)), meaning) for code, meaning in _ENDINGS.items())


def command_pages() -> Iterator[CommandPage]:
    """Yield every command, in the order of the help."""
    root = click.Context(cli, info_name="magos")
    for name in COMMANDS:
        command = cli.get_command(root, name)
        if command is None:
            raise InvariantViolation(f"the command {name} is listed and does not exist")
        yield from _sections(command, root, name)


def _sections(command: click.Command, parent: click.Context, name: str) -> Iterator[CommandPage]:
    context = click.Context(command, info_name=name, parent=parent)
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            if found is not None:
                yield from _sections(found, context, inner)
        return
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    flags = tuple(_flag(each) for each in command.params if isinstance(each, click.Option))
    yield CommandPage(name=context.command_path, usage=usage, help=_paragraphs(command.help or ""), flags=flags)


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(each.split()) for each in text.split("\n\n"))


def _flag(option: click.Option) -> Row:
    names = ", ".join(f"`{each}`" for each in (*option.opts, *option.secondary_opts))
    return (names, "" if option.is_flag else _value(option), _default(option), option.help or _PRINTED)


_PRINTED = "How to print."


def _value(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return ", ".join(map(str, option.type.choices))
    return option.metavar or option.type.name.upper()


def _default(option: click.Option) -> str:
    return str(option.default) if option.show_default and option.default is not None else ""
