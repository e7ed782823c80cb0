"""The public layout of releases: which files a version consists of and where they lie (spec §7.3).

``<base>/<version>/<name>_<version>_<os>_<arch>.zip`` beside ``<name>_<version>_SHA256SUMS`` and its detached signature.
Pure.
"""

import platform
import re
from typing import assert_never
from urllib.parse import urlsplit

import msgspec

from magos.api.tool import Distribution
from magos.toolchain.errors import ToolError, ToolReason

_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z][0-9A-Za-z.\-]*)?", re.ASCII)
_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_USERINFO = re.compile(r"(?<=//)[^/?#\s]*@")


class Release(msgspec.Struct, frozen=True):
    """The files of one version for one architecture, by name; the first signature name is the usual one."""

    distribution: Distribution
    version: str
    binary: str
    archive: str
    checksums: str
    signatures: tuple[str, str]

    def directories(self, base: str) -> tuple[str, str]:
        """Return the version directories to try below ``base``, in order, without trailing slash."""
        root = base.rstrip("/")
        return f"{root}/{self.version}", f"{root}/v{self.version}"


def release(distribution: Distribution, version: str, arch: str) -> Release:
    """Return the file names of ``version`` (``x.y.z`` or ``x.y.z-pre``) on Linux for ``amd64`` or ``arm64``.

    Raises ``ToolError`` (ToolDownloadFailed) for a version or architecture that no release can have.
    """
    if not _VERSION.fullmatch(version) or ".." in version:
        raise ToolError(
            ToolReason.TOOL_DOWNLOAD_FAILED,
            f"{distribution.value} version {version!r} is not x.y.z or x.y.z-pre (no 'v', no range);"
            " correct terraform.version",
        )
    if arch not in _ARCHITECTURES.values():
        raise ToolError(
            ToolReason.TOOL_DOWNLOAD_FAILED,
            f"there is no {distribution.value} for architecture {arch!r}; run on amd64 or arm64",
        )
    match distribution:
        case Distribution.TERRAFORM:
            name, suffixes = "terraform", (".sig", ".gpgsig")
        case Distribution.OPENTOFU:
            name, suffixes = "tofu", (".gpgsig", ".sig")
        case _:
            assert_never(distribution)
    checksums = f"{name}_{version}_SHA256SUMS"
    return Release(
        distribution,
        version,
        binary=name,
        archive=f"{name}_{version}_linux_{arch}.zip",
        checksums=checksums,
        signatures=(checksums + suffixes[0], checksums + suffixes[1]),
    )


def default_base(distribution: Distribution) -> str:
    """Return where the vendor publishes releases."""
    match distribution:
        case Distribution.TERRAFORM:
            return "https://releases.hashicorp.com/terraform"
        case Distribution.OPENTOFU:
            return "https://github.com/opentofu/opentofu/releases/download"
        case _:
            assert_never(distribution)


def architecture(machine: str | None = None) -> str:
    """Return the release name of ``machine`` (default: this one), e.g. ``amd64`` for ``x86_64``; unknown ones as is."""
    name = (machine or platform.machine()).lower()
    return _ARCHITECTURES.get(name, name)


def shown(url: str) -> str:
    """Return ``url`` without userinfo and query, fit for messages."""
    plain = _USERINFO.sub("", url)
    return plain.split("?")[0] if urlsplit(plain).query else plain
