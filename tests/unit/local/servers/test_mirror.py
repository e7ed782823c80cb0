"""The local release mirror passes the runner's own verification, and a change to it does not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from magos.api.tool import Distribution
from magos.local.servers.mirror import ReleaseMirror, release_mirror
from magos.toolchain.errors import ToolError, ToolReason
from magos.toolchain.install import InstallRequest, install

_VERSION = "1.2.3"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program"
    path.write_text("#!/bin/sh\necho real\n")
    return path


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[ReleaseMirror]:
    with release_mirror(tmp_path / "mirror", tmp_path / "keys") as running:
        yield running


def _request(mirror: ReleaseMirror, tmp_path: Path, distribution: Distribution) -> InstallRequest:
    return InstallRequest(
        distribution=distribution,
        version=_VERSION,
        cache_dir=tmp_path / "cache",
        destination=tmp_path / "installed",
        mirror_base=mirror.url,
        keys_dir=mirror.keys,
    )


@pytest.mark.parametrize("distribution", list(Distribution))
def test_a_published_program_installs_with_checksum_and_signature_verified(
    mirror: ReleaseMirror, program: Path, tmp_path: Path, distribution: Distribution
) -> None:
    mirror.publish(program, _VERSION, distribution)
    tool = install(_request(mirror, tmp_path, distribution))
    assert tool.path.read_text() == program.read_text()
    assert tool.warnings == ()
    assert [served.status for served in mirror.log.all()] == [200, 200, 200]


def test_a_tampered_archive_is_refused(mirror: ReleaseMirror, program: Path, tmp_path: Path) -> None:
    folder = mirror.publish(program, _VERSION)
    with next(folder.glob("*.zip")).open("ab") as archive:
        archive.write(b"x")
    with pytest.raises(ToolError) as caught:
        install(_request(mirror, tmp_path, Distribution.OPENTOFU))
    assert caught.value.reason is ToolReason.CHECKSUM_MISMATCH


def test_a_release_signed_with_another_key_is_refused(mirror: ReleaseMirror, program: Path, tmp_path: Path) -> None:
    mirror.publish(program, _VERSION)
    with release_mirror(tmp_path / "other-mirror", tmp_path / "other-keys") as other:
        folder = other.publish(program, _VERSION)
    for file in folder.iterdir():
        file.replace(mirror.folder / _VERSION / file.name)
    with pytest.raises(ToolError) as caught:
        install(_request(mirror, tmp_path, Distribution.OPENTOFU))
    assert caught.value.reason is ToolReason.SIGNATURE_INVALID


def test_a_version_that_was_not_published_is_reported_as_missing(mirror: ReleaseMirror, tmp_path: Path) -> None:
    with pytest.raises(ToolError) as caught:
        install(_request(mirror, tmp_path, Distribution.OPENTOFU))
    assert caught.value.reason is ToolReason.TOOL_DOWNLOAD_FAILED
