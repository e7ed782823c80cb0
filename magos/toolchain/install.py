"""Install one version of a tool: from the cache if it verifies, else from the vendor or a mirror.

The cache lies where configuration code can write, so nothing in it is believed: archive, checksum file and signature
are copied out of it and verified in every call before anything is unpacked (spec §7.3). What does not verify is
downloaded again, once. The cache is filled file by file with a rename, the archive last, so a crash leaves no
half-written file that looks complete; a cache that cannot be written costs a download and a warning, not the run.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from magos.api.tool import Distribution
from magos.bounds import TOOL_ARCHIVE, TOOL_TEXT
from magos.folder import Folder, is_full
from magos.outbound.peers import Peers
from magos.toolchain.archive import unpack
from magos.toolchain.errors import ToolError, ToolReason
from magos.toolchain.keyexpiry import expiry_warning
from magos.toolchain.releases import Release, architecture, default_base, release, shown
from magos.toolchain.verify import read_checksums, release_keys, verify_archive, verify_signature

_UNVERIFIED = (
    "the signature of {name} {version} was not verified because MAGOS_VERIFY_SIGNATURES=false;"
    " only its checksum was, which the mirror itself provides"
)


class InstallRequest(msgspec.Struct, frozen=True):
    """What to install and where.

    ``cache_dir`` is this version's own cache folder, by convention ``tools/<distribution>/<version>`` on the volume,
    and ``cache_root`` where that is mounted, by default the cache itself: below it no link is followed.
    ``destination`` is a folder of the pod's own that is fresh. ``keys_dir`` replaces the shipped keys, ``mirror_base``
    the vendor's address. ``timeout`` in seconds bounds each attempt to download. ``make_room`` is called where the
    cache is full, with the bytes that it is to hold more; it says whether it could free any.
    """

    distribution: Distribution
    version: str
    cache_dir: Path
    destination: Path
    cache_root: Path | None = None
    mirror_base: str | None = None
    keys_dir: Path | None = None
    verify_signatures: bool = True
    arch: str = msgspec.field(default_factory=architecture)
    timeout: float = 600.0
    peers: Peers = Peers()
    make_room: Callable[[int], bool] = lambda _: False

    def cache(self, *, make: bool = False) -> Folder:
        """Hold the cache folder; ``FileNotFoundError`` if it is missing and not to be made."""
        if self.cache_root is None:
            if make:
                self.cache_dir.mkdir(parents=True, exist_ok=True)
            return Folder.at(self.cache_dir)
        name = str(self.cache_dir.relative_to(self.cache_root))
        with Folder.at(self.cache_root) as root:
            return root.made(name) if make else root.folder(name)


class InstalledTool(msgspec.Struct, frozen=True):
    """The executable, what it is, and what the log and the result should warn about."""

    path: Path
    version: str
    distribution: Distribution
    warnings: tuple[str, ...]


class _Files(msgspec.Struct, frozen=True):
    """A complete set in a private folder; ``source`` says where it came from."""

    archive: Path
    checksums: Path
    signature: Path | None
    source: str


def install(request: InstallRequest) -> InstalledTool:
    """Verify and unpack the tool. Blocks. Raises ``ToolError`` with the reasons of spec §7.6."""
    wanted = release(request.distribution, request.version, request.arch)
    warnings: list[str] = []
    if not request.verify_signatures:
        warnings.append(_UNVERIFIED.format(name=wanted.binary, version=wanted.version))
    request.destination.mkdir(parents=True, exist_ok=True)
    # beside the destination, not in the cache: what was verified there could be exchanged before it is unpacked
    with tempfile.TemporaryDirectory(prefix=".install-", dir=request.destination.parent) as private:
        files = _verified(request, wanted, Path(private), warnings)
        tool = unpack(files.archive, wanted.binary, request.destination)
    return InstalledTool(tool, wanted.version, request.distribution, tuple(warnings))


def _verified(request: InstallRequest, wanted: Release, private: Path, warnings: list[str]) -> _Files:
    cached = _from_cache(request, wanted, _folder(private, "cached"))
    if cached is not None:
        try:
            warnings += _verify(request, wanted, cached)
        except ToolError as error:
            warnings.append(f"the cached {wanted.binary} {wanted.version} was downloaded again: {error.message}")
        else:
            return cached
    fetched = _fetch(request, wanted, _folder(private, "fetched"))
    warnings += _verify(request, wanted, fetched)
    try:
        try:
            _fill_cache(request, wanted, fetched)
        except OSError as error:
            if not is_full(error) or not request.make_room(fetched.archive.stat().st_size):
                raise
            _fill_cache(request, wanted, fetched)
    except OSError as error:
        warnings.append(f"the tool cache {request.cache_dir} cannot be written ({error.strerror}); check the volume")
    return fetched


def _verify(request: InstallRequest, wanted: Release, files: _Files) -> list[str]:
    """Return what to warn about: a signing key that expires soon."""
    sums = read_checksums(files.checksums, files.source)
    warnings: list[str] = []
    if request.verify_signatures:
        if files.signature is None:
            raise ToolError(
                ToolReason.SIGNATURE_INVALID,
                f"{files.source} has no signature ({' or '.join(wanted.signatures)}) for version {wanted.version};"
                " complete the mirror or set MAGOS_VERIFY_SIGNATURES=false",
            )
        keys = release_keys(request.keys_dir, request.distribution)
        signer = verify_signature(files.checksums.read_bytes(), files.signature.read_bytes(), keys, files.source)
        if soon := expiry_warning(signer.fingerprint, signer.expires, datetime.now(UTC)):
            warnings.append(soon)
    verify_archive(files.archive, sums, files.source)
    return warnings


def _from_cache(request: InstallRequest, wanted: Release, target: Path) -> _Files | None:
    """Copy the cached set, links refused, into ``target``; ``None`` if it is incomplete."""
    names = [wanted.archive, wanted.checksums, *wanted.signatures]
    try:
        with request.cache() as cache:
            present = {
                name: target / name
                for name in names
                if copy_regular(cache, name, target, TOOL_ARCHIVE.limit if name == wanted.archive else TOOL_TEXT.limit)
            }
    except OSError:  # a link in its place, or a full volume: as good as not cached
        return None
    if wanted.archive not in present or wanted.checksums not in present:
        return None
    signature = next((present[name] for name in wanted.signatures if name in present), None)
    if signature is None and request.verify_signatures:
        return None
    return _Files(present[wanted.archive], present[wanted.checksums], signature, f"the cache {request.cache_dir}")


def copy_regular(cache: Folder, name: str, target: Path, largest: int) -> bool:
    """Copy ``name`` into ``target`` if it is a regular file, no link, of at most ``largest`` bytes; tell whether so."""
    try:
        with cache.opened(name) as opened:
            if os.fstat(opened.fileno()).st_size > largest:
                return False
            with (target / name).open("wb") as sink:
                shutil.copyfileobj(opened, sink, 1 << 20)
    except OSError:  # absent, a link, or not ours to read: as good as not cached
        return False
    return True


def _fetch(request: InstallRequest, wanted: Release, target: Path) -> _Files:
    from magos.toolchain.download import Downloads, Missing

    base = request.mirror_base or default_base(request.distribution)
    first, second = wanted.directories(base)
    downloads = Downloads(request.timeout, request.peers)

    def get(directory: str, name: str, largest: int = TOOL_TEXT.limit) -> Path:
        downloads.get(f"{directory}/{name}", target / name, largest)
        return target / name

    try:
        directory, checksums = first, get(first, wanted.checksums)
    except Missing:
        try:
            directory, checksums = second, get(second, wanted.checksums)
        except Missing as error:
            raise ToolError(
                ToolReason.TOOL_DOWNLOAD_FAILED,
                f"{wanted.binary} {wanted.version} was found neither at {shown(first)} nor at {shown(second)}"
                f" (HTTP {error.status}); check that the version exists and the mirror holds it",
            ) from error
    signature = None
    for name in wanted.signatures if request.verify_signatures else ():
        try:
            signature = get(directory, name)
            break
        except Missing:
            continue
    archive = get(directory, wanted.archive, TOOL_ARCHIVE.limit)
    return _Files(archive, checksums, signature, shown(directory))


def _fill_cache(request: InstallRequest, wanted: Release, files: _Files) -> None:
    with request.cache(make=True) as cache:
        for name in wanted.signatures:
            cache.remove(name)
        for source in (files.signature, files.checksums, files.archive):
            if source is not None:
                with source.open("rb") as content:
                    cache.replace(source.name, content)  # not synced: what a power failure tears does not verify


def _folder(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir()
    return folder
