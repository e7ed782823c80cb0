"""Tells whether the Terraform state would be lost with the pod (spec §7.1, field case F15).

After ``init`` the data directory holds the backend's settings in ``terraform.tfstate``; without a backend block there
is no such file and the state goes to the working directory, which is the pod's own tree.
"""

from pathlib import Path
from typing import Final

import msgspec

from magos.api.reasons import Reason
from magos.runner.files import read_limited
from magos.runner.outcome import StageFailed

__all__ = ["require_persistent_state"]

_LARGEST: Final = 1024 * 1024
_DEFAULT_FILE: Final = "terraform.tfstate"
_REMEDY: Final = (
    "configure a backend that outlives the pod (spec.source.path names the module), or set"
    " MAGOS_ALLOW_EPHEMERAL_STATE=true on the workspace controller to try things out"
)


class _LocalSettings(msgspec.Struct):
    path: str | None = None


class _Backend(msgspec.Struct):
    type: str
    config: msgspec.Raw = msgspec.Raw(b"{}")


class _BackendFile(msgspec.Struct):
    backend: _Backend | None = None


def require_persistent_state(data: Path, working_directory: Path, throwaway: Path) -> None:
    """Raise ``StageFailed`` (InvalidConfiguration) if the state would lie below ``throwaway``, links resolved."""
    backend = _backend(data / _DEFAULT_FILE)
    if backend is None:
        raise _lost("the configuration has no backend block, so its state would be lost with this pod")
    if backend.type != "local":
        return
    named = msgspec.json.decode(backend.config, type=_LocalSettings).path or _DEFAULT_FILE
    if (working_directory / named).resolve().is_relative_to(throwaway.resolve()):
        raise _lost(f"the local backend keeps the state at {named!r} in the checkout, where it is lost with this pod")


def _backend(settings: Path) -> _Backend | None:
    try:
        return msgspec.json.decode(read_limited(settings, _LARGEST), type=_BackendFile).backend
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StageFailed(
            Reason.INVALID_CONFIGURATION, f"the backend settings that init wrote are unreadable: {error}"
        ) from error


def _lost(cause: str) -> StageFailed:
    return StageFailed(Reason.INVALID_CONFIGURATION, f"{cause}; {_REMEDY}")
