"""Reads the file named by ``MAGOS_JOB_POD_CONFIG``: what an administrator adds to runner pods (spec §5.4).

It may add, never override: names of our variables and volumes and paths of our mounts are refused. Every mistake is one
line that names the file and the field; an unknown field is a mistake, too.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from magos.adapters.quantity import is_size
from magos.errors import ConfigurationError
from magos.reconcilers.workspace.pod.environment import FIXED_NAMES, FIXED_PREFIXES
from magos.reconcilers.workspace.pod.settings import DEFAULT_VOLUME_SIZES, MINIMUM_GRACE_SECONDS, PodConfig
from magos.reconcilers.workspace.pod.stages import FIXED_MOUNT_PATHS, FIXED_VOLUMES

VARIABLE = "MAGOS_JOB_POD_CONFIG"


def read_pod_config(path: str) -> PodConfig:
    """Return the configuration in the file; raise ``ConfigurationError``."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{VARIABLE}: {path} cannot be read: {error}") from None
    return parse_pod_config(text, path)


def parse_pod_config(text: str, path: str) -> PodConfig:
    """Return the configuration written as YAML; ``path`` is for messages."""
    try:
        import yaml
    except ModuleNotFoundError:
        raise ConfigurationError(f"{VARIABLE} needs the package pyyaml, which is not installed") from None
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        _refuse(path, f"is not YAML: {' '.join(str(error).split())}")
    if raw is None:
        return PodConfig()
    try:
        config = msgspec.convert(raw, PodConfig)
    except msgspec.ValidationError as error:
        _refuse(path, f"is not a pod configuration: {error}")
    unknown = next(_unknown(raw, msgspec.to_builtins(config), ""), None)
    if unknown is not None:
        _refuse(path, f"has the unknown field {unknown}")
    _check(config, path)
    return config


def _check(config: PodConfig, path: str) -> None:
    if config.termination_grace_period_seconds < MINIMUM_GRACE_SECONDS:
        _refuse(path, f"terminationGracePeriodSeconds must be at least {MINIMUM_GRACE_SECONDS}")
    for name, size in config.volume_sizes.items():
        if name not in DEFAULT_VOLUME_SIZES:
            _refuse(path, f"volumeSizes names {name!r}, which is none of {', '.join(DEFAULT_VOLUME_SIZES)}")
        if size is not None and not is_size(size):
            _refuse(path, f"volumeSizes.{name}: {size!r} is not a quantity such as 10Gi or 500Mi")
    for variable in config.env:
        if variable.name in FIXED_NAMES or variable.name.startswith(FIXED_PREFIXES):
            _refuse(path, f"env {variable.name!r} is set by Magos itself and cannot be overridden")
    volumes = [volume.name for volume in config.volumes]
    taken = next((name for name in volumes if name in FIXED_VOLUMES or volumes.count(name) > 1), None)
    if taken is not None:
        _refuse(path, f"volume {taken!r} is defined already")
    for mount in config.volume_mounts:
        if mount.name not in volumes:
            _refuse(path, f"volumeMounts {mount.mount_path!r} names the volume {mount.name!r}, which is not defined")
        if not mount.mount_path.startswith("/"):
            _refuse(path, f"volumeMounts {mount.mount_path!r} is not an absolute path")
        if any(_overlap(mount.mount_path, fixed) for fixed in FIXED_MOUNT_PATHS):
            _refuse(path, f"volumeMounts {mount.mount_path!r} would hide or lie in a folder of Magos")


def _overlap(one: str, other: str) -> bool:
    first, second = f"{one.rstrip('/')}/", f"{other}/"
    return first.startswith(second) or second.startswith(first)


def _unknown(written: Any, understood: Any, where: str) -> Iterator[str]:
    """Yield what was written and got lost on the way: fields of nested objects that no type declares."""
    if isinstance(written, Mapping):
        known = understood if isinstance(understood, Mapping) else {}
        for key, value in written.items():
            here = f"{where}.{key}" if where else str(key)
            if key not in known:
                if value:  # a value that equals its default is not written out again
                    yield here
            else:
                yield from _unknown(value, known[key], here)
    elif isinstance(written, list) and isinstance(understood, list | tuple):
        for number, (one, other) in enumerate(zip(written, understood, strict=False)):
            yield from _unknown(one, other, f"{where}[{number}]")


def _refuse(path: str, problem: str) -> NoReturn:
    raise ConfigurationError(f"{VARIABLE}: {path} {problem}")
