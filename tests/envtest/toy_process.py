"""The toy controller as a process of its own: ``python -m tests.envtest.toy_process KUBECONFIG NAMESPACE FLAGS...``."""

import sys
from collections.abc import Callable, Sequence

import msgspec

from magos.api.kube import CONFIG_MAPS
from magos.errors import ConfigurationError
from magos.runtime.client.config import load_config
from magos.runtime.controller.controller import ControllerSpec
from magos.runtime.controller.source import EventSource, own_key, owner_key
from magos.runtime.manager.assembly import Assembly
from magos.runtime.manager.composition import ControllerApp
from magos.runtime.manager.process import run_controllers
from magos.runtime.manager.settings import Settings, parse_flags
from tests.envtest.cluster import Cluster
from tests.sim import toy
from tests.sim.toy import WIDGETS

NAME = "toy-controller"


def build_in(namespace: str) -> Callable[[Assembly], Sequence[ControllerSpec]]:
    """Return the composition of the toy controller, restricted to a namespace."""

    def build(assembly: Assembly) -> Sequence[ControllerSpec]:
        widgets = assembly.informer(WIDGETS, namespace=namespace)
        children = assembly.informer(CONFIG_MAPS, namespace=namespace)
        sources = (EventSource(widgets, own_key), EventSource(children, owner_key(WIDGETS)))
        return (
            ControllerSpec(
                name="toy",
                kind=WIDGETS,
                reconcile=toy.reconcile,
                sources=sources,
                workers=assembly.settings.workers,
            ),
        )

    return build


def app_in(namespace: str, settings: Settings) -> ControllerApp:
    """Return the toy app for a namespace."""
    return ControllerApp(name=NAME, settings=settings, build=build_in(namespace))


def define(cluster: Cluster) -> None:
    """Make the API server serve Widgets."""
    cluster.kubectl.run("apply", "--filename=-", stdin=msgspec.json.encode(toy.CRD).decode())
    cluster.kubectl.run("wait", "--for=condition=Established", "--timeout=60s", f"crd/widgets.{toy.GROUP}")


def main(arguments: Sequence[str]) -> int:
    """Run until asked to stop."""
    kubeconfig, namespace, *flags = arguments
    try:
        settings = parse_flags(NAME, flags, namespace=namespace, identity="toy")
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 2
    return run_controllers(app_in(namespace, settings), load_config(kubeconfig, environ={}), version="test")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
