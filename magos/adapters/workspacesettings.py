"""The environment of the workspace controller (spec §13.2): names, defaults, and one clear line for what is wrong.

An empty variable counts as unset, because that is how a manifest leaves one out.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from magos.adapters.gitsettings import allowed_schemes, peers
from magos.adapters.podconfig import VARIABLE as POD_CONFIG
from magos.adapters.podconfig import read_pod_config
from magos.adapters.quantity import is_size
from magos.api.runnerpod import ALLOW_EPHEMERAL_STATE, PASSED_ON, VERIFY_SIGNATURES
from magos.api.schema.patterns import VERSION
from magos.api.tool import Distribution
from magos.durations import parse_duration
from magos.errors import ConfigurationError
from magos.reconcilers.workspace.pod.settings import PodConfig, WorkspaceSettings
from magos.reconcilers.workspace.pod.toolversion import MINIMUM_OPENTOFU, MINIMUM_TERRAFORM, SETTINGS
from magos.runtime.client.config import SERVICE_ACCOUNT

_OWN_NAMESPACE = "MAGOS_ALLOW_CONTROLLER_NAMESPACE"
_VERIFIED_PRINCIPALS = "MAGOS_VERIFIED_PRINCIPALS"
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_SWITCHES = (VERIFY_SIGNATURES, ALLOW_EPHEMERAL_STATE)


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
        verified_principals=_one_of(environ, _VERIFIED_PRINCIPALS, ("true", "false"), "false") == "true",
        runner_environment=_passed_on(environ),
    )


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
    if not is_size(size):
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
