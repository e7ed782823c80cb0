"""The environment of the workspace controller (spec §13.2): names, defaults, and one clear line for what is wrong.

An empty variable counts as unset, because that is how a manifest leaves one out.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from magos.api.schema.patterns import VERSION
from magos.api.workspace import Distribution
from magos.apps.pod_config import VARIABLE as POD_CONFIG
from magos.apps.pod_config import read_pod_config
from magos.durations import parse_duration
from magos.errors import ConfigurationError
from magos.outbound.peers import Network, Peers, parse_networks
from magos.reconcilers.workspace.pod.settings import DEFAULT_SCHEMES, PodConfig, WorkspaceSettings
from magos.reconcilers.workspace.pod.toolversion import MINIMUM_OPENTOFU, MINIMUM_TERRAFORM, SETTINGS
from magos.runtime.client.config import SERVICE_ACCOUNT

__all__ = ["PASSED_ON", "allowed_schemes", "load_workspace_settings", "peers"]

PASSED_ON = (
    "MAGOS_ALLOWED_GIT_SCHEMES",
    "MAGOS_ALLOWED_PEERS",
    "MAGOS_ALLOW_EPHEMERAL_STATE",
    "MAGOS_DENIED_PEERS",
    "MAGOS_OPENTOFU_MIRROR",
    "MAGOS_RELEASE_KEYS",
    "MAGOS_TERRAFORM_MIRROR",
    "MAGOS_VERIFY_SIGNATURES",
    "TF_CLI_CONFIG_FILE",
)
"""What the runner is told as it is told to the controller (spec §5.5, last row)."""

_OWN_NAMESPACE = "MAGOS_ALLOW_CONTROLLER_NAMESPACE"
_SCHEMES = ("https", "http", "ssh", "git", "file")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_SWITCHES = ("MAGOS_VERIFY_SIGNATURES", "MAGOS_ALLOW_EPHEMERAL_STATE")
_QUANTITY = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[EPTGMk]i?|Ki|e[0-9]+)?", re.ASCII)


def load_workspace_settings(environ: Mapping[str, str], account: Path = SERVICE_ACCOUNT) -> WorkspaceSettings:
    """Return the settings in ``environ``; raise ``ConfigurationError`` that names the variable.

    ``account`` is where a pod finds its ServiceAccount, and there its namespace.
    """
    image = environ.get("MAGOS_JOB_IMAGE", "")
    if not image or image != image.strip():
        raise ConfigurationError(
            f"MAGOS_JOB_IMAGE is {image!r}: set it to the runner image; without it no plan can be made"
        )
    timeout = environ.get("MAGOS_JOB_START_TIMEOUT") or "10m"
    try:
        start_timeout = parse_duration(timeout)
    except ValueError as error:
        raise ConfigurationError(f"MAGOS_JOB_START_TIMEOUT: {error}") from None
    pod_config = environ.get(POD_CONFIG)
    return WorkspaceSettings(
        job_image=image,
        image_pull_policy=_one_of(environ, "MAGOS_JOB_IMAGE_PULL_POLICY", _PULL_POLICIES, "IfNotPresent"),
        pod=read_pod_config(pod_config) if pod_config else PodConfig(),
        start_timeout=start_timeout,
        pvc_size=_size(environ),
        pvc_storage_class=environ.get("MAGOS_PVC_STORAGE_CLASS") or None,
        allowed_schemes=allowed_schemes(environ),
        minimum_terraform=_version(environ, SETTINGS[Distribution.TERRAFORM], MINIMUM_TERRAFORM),
        minimum_opentofu=_version(environ, SETTINGS[Distribution.OPENTOFU], MINIMUM_OPENTOFU),
        refused_namespace=_refused_namespace(environ, account),
        runner_environment=_passed_on(environ),
    )


def allowed_schemes(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the URL schemes that may be cloned from."""
    text = environ.get("MAGOS_ALLOWED_GIT_SCHEMES")
    if not text:
        return DEFAULT_SCHEMES
    schemes = tuple(part.strip() for part in text.split(","))
    wrong = next((scheme for scheme in schemes if scheme not in _SCHEMES), None)
    if wrong is not None:
        raise ConfigurationError(
            f"MAGOS_ALLOWED_GIT_SCHEMES: {wrong!r} is none of {', '.join(_SCHEMES)} (a list separated by commas)"
        )
    return schemes


def peers(environ: Mapping[str, str]) -> Peers:
    """Return which addresses Git and downloads of tools may connect to."""
    return Peers(denied=_networks(environ, "MAGOS_DENIED_PEERS"), allowed=_networks(environ, "MAGOS_ALLOWED_PEERS"))


def _networks(environ: Mapping[str, str], name: str) -> tuple[Network, ...]:
    try:
        return parse_networks(environ.get(name, ""))
    except ValueError as error:
        raise ConfigurationError(f"{name}: {error} (a list separated by commas)") from None


def _refused_namespace(environ: Mapping[str, str], account: Path) -> str:
    """The controllers' own namespace, unless it is allowed; empty where there is none, as outside of a cluster."""
    if _one_of(environ, _OWN_NAMESPACE, ("true", "false"), "false") == "true":
        return ""
    namespace = environ.get("POD_NAMESPACE", "")
    if namespace:
        return namespace
    try:
        return (account / "namespace").read_text("utf-8").strip()
    except FileNotFoundError:
        return ""


def _passed_on(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    peers(environ)
    for name in _SWITCHES:
        _one_of(environ, name, ("true", "false"), "false")
    return tuple((name, environ[name]) for name in PASSED_ON if environ.get(name))


def _size(environ: Mapping[str, str]) -> str:
    size = environ.get("MAGOS_PVC_SIZE") or "1Gi"
    if _QUANTITY.fullmatch(size) is None or not any(digit in size for digit in "123456789"):
        raise ConfigurationError(f"MAGOS_PVC_SIZE: {size!r} is not a quantity such as 1Gi or 500Mi")
    return size


def _version(environ: Mapping[str, str], name: str, default: str) -> str:
    value = environ.get(name) or default
    if re.fullmatch(VERSION.removesuffix("$"), value, re.ASCII) is None:
        raise ConfigurationError(f"{name}: {value!r} is not an exact version such as {default}")
    return value


def _one_of(environ: Mapping[str, str], name: str, allowed: tuple[str, ...], default: str) -> str:
    value = environ.get(name) or default
    if value not in allowed:
        raise ConfigurationError(f"{name}: {value!r} is none of {', '.join(allowed)}")
    return value
