"""The settings every controller process shares, and the flags that give them (names and defaults: specification §13.2).

Flags are written as in other controllers: ``--name=value`` or ``--name value``; a switch alone means true. What is
wrong is one line that names the flag, as a ``ConfigurationError``. The app reads the environment and passes it on.
"""

import argparse
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from msgspec import Struct

from magos.errors import ConfigurationError

LOG_LEVELS = ("debug", "info", "warning", "error")


class Bind(NamedTuple):
    """Where a server listens; an empty host means every interface."""

    host: str
    port: int

    def __str__(self) -> str:
        """``host:port`` as it is written in flags."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Settings(Struct, frozen=True, kw_only=True):
    """What every controller process can be set to. ``namespace`` is its own; ``identity`` names this replica.

    ``grace`` is the time in seconds that passes under way may take once the process is asked to end.
    """

    namespace: str = ""
    identity: str = ""
    metrics: Bind | None = None
    metrics_secure: bool = True
    metrics_cert_path: str = ""
    metrics_cert_name: str = "tls.crt"
    metrics_cert_key: str = "tls.key"
    metrics_per_object: bool = True
    health: Bind | None = Bind("", 8081)
    leader_elect: bool = False
    leader_elect_id: str = ""
    workers: int = 8
    log_level: str = "info"
    grace: float = 25.0


def parse_bind(text: str) -> Bind | None:
    """Return where ``:8081``, ``127.0.0.1:8081`` or ``[::1]:8081`` says to listen; None for ``0``: do not listen."""
    if text == "0":
        return None
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    well_formed = colon and port.isascii() and port.isdecimal() and 0 < int(port) < 65536
    if not well_formed or (":" in host and not bracketed):
        raise ValueError(f"{text!r} is not an address such as :8081 or 127.0.0.1:8081, nor 0 for off")
    return Bind(host[1:-1] if bracketed else host, int(port))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigurationError(f"{self.prog}: {message}")


def flag_parser(program: str) -> argparse.ArgumentParser:
    """Return a parser that raises ``ConfigurationError`` with one line instead of ending the process."""
    return _Parser(prog=program, allow_abbrev=False)


def add_common_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that every controller has."""
    defaults = Settings()
    parser.add_argument("--metrics-bind-address", type=_bind, default=None, metavar="ADDRESS", help="0 = off")
    _add_switch(parser, "--metrics-secure", default=defaults.metrics_secure)
    parser.add_argument("--metrics-cert-path", default=defaults.metrics_cert_path, metavar="DIRECTORY")
    parser.add_argument("--metrics-cert-name", default=defaults.metrics_cert_name, metavar="FILE")
    parser.add_argument("--metrics-cert-key", default=defaults.metrics_cert_key, metavar="FILE")
    _add_switch(parser, "--metrics-per-object", default=defaults.metrics_per_object)
    parser.add_argument("--health-probe-bind-address", type=_bind, default=defaults.health, metavar="ADDRESS")
    _add_switch(parser, "--leader-elect", default=defaults.leader_elect)
    parser.add_argument("--leader-elect-id", default=defaults.leader_elect_id, metavar="NAME")
    parser.add_argument("--max-concurrent-reconciles", type=_count, default=defaults.workers, metavar="N")
    parser.add_argument("--log-level", choices=LOG_LEVELS, default=defaults.log_level)


def common_settings(flags: argparse.Namespace, *, namespace: str, identity: str) -> Settings:
    """Return the settings that the parsed common flags say; ``namespace`` and ``identity`` come from the app."""
    if flags.leader_elect and not namespace:
        raise ConfigurationError("--leader-elect needs to know the own namespace; set POD_NAMESPACE")
    return Settings(
        namespace=namespace,
        identity=identity,
        metrics=flags.metrics_bind_address,
        metrics_secure=flags.metrics_secure,
        metrics_cert_path=flags.metrics_cert_path,
        metrics_cert_name=flags.metrics_cert_name,
        metrics_cert_key=flags.metrics_cert_key,
        metrics_per_object=flags.metrics_per_object,
        health=flags.health_probe_bind_address,
        leader_elect=flags.leader_elect,
        leader_elect_id=flags.leader_elect_id,
        workers=flags.max_concurrent_reconciles,
        log_level=flags.log_level,
    )


def parse_flags(program: str, arguments: Sequence[str], *, namespace: str, identity: str) -> Settings:
    """Parse the flags of a controller that has no others."""
    parser = flag_parser(program)
    add_common_flags(parser)
    return common_settings(parser.parse_args(arguments), namespace=namespace, identity=identity)


def _add_switch(parser: argparse.ArgumentParser, name: str, *, default: bool) -> None:
    parser.add_argument(name, type=_truth, nargs="?", const=True, default=default, metavar="true|false")


def _bind(text: str) -> Bind | None:
    try:
        return parse_bind(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text == "true"


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= 1000):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1000")
    return int(text)
