"""How every controller program begins: flags, environment, connection, exit code (spec §13.2).

Whatever is wrong with a flag or a variable is one line on stderr that names it, and exit code 2.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from magos.errors import ConfigurationError
from magos.runtime.client.config import load_config
from magos.runtime.controller.controller import ControllerSpec
from magos.runtime.manager.assembly import Assembly
from magos.runtime.manager.composition import ControllerApp
from magos.runtime.manager.process import run_controllers
from magos.runtime.manager.settings import add_common_flags, common_settings, flag_parser
from magos.terminal import echo
from magos.version import VERSION

Build = Callable[[Assembly], Sequence[ControllerSpec]]


def run_program(name: str, prepare: Callable[[Mapping[str, str]], Build]) -> int:
    """Run the controller program ``magos-<name>-controller`` and return its exit code.

    ``prepare`` reads the settings of this program from the environment, and returns what builds its controllers.
    """
    return run_program_with_flags(name, lambda _parser: None, lambda environ, _flags: prepare(environ))


def run_program_with_flags(
    name: str,
    add_flags: Callable[[argparse.ArgumentParser], None],
    prepare: Callable[[Mapping[str, str], argparse.Namespace], Build],
) -> int:
    """Do the same for a program with flags of its own, which ``prepare`` is given too."""
    environ = dict(os.environ)
    parser = flag_parser(f"magos-{name}-controller")
    add_common_flags(parser)
    add_flags(parser)
    parser.add_argument("--kubeconfig", default=None, metavar="FILE", help="default: $KUBECONFIG or the pod")
    try:
        flags = parser.parse_args(sys.argv[1:])
        settings = common_settings(
            flags, namespace=environ.get("POD_NAMESPACE", ""), identity=environ.get("HOSTNAME", "")
        )
        build = prepare(environ, flags)
        connection = load_config(flags.kubeconfig, environ=environ)
    except ConfigurationError as error:
        echo(" ".join(str(error).split()), error=True)
        return 2
    app = ControllerApp(name=f"{name}-controller", settings=settings, build=build)
    return run_controllers(app, connection, version=VERSION)
