"""Installing a tool: what is verified, what is cached, and what is refused."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from magos.api.tool import Distribution
from magos.toolchain.errors import ToolError, ToolReason
from magos.toolchain.install import InstallRequest, install
from tests.unit.toolchain.conftest import BINARY, Mirror, Signer, make_zip


@pytest.fixture
def request_(tmp_path: Path, mirror: Mirror, keys: Path) -> InstallRequest:
    return InstallRequest(
        distribution=Distribution.OPENTOFU,
        version="1.9.0",
        cache_dir=tmp_path / "cache" / "opentofu" / "1.9.0",
        destination=tmp_path / "bin",
        mirror_base=mirror.url,
        keys_dir=keys,
        arch="amd64",
        timeout=20,
    )


def again(request: InstallRequest, number: int = 2) -> InstallRequest:
    return msgspec.structs.replace(request, destination=request.destination.with_name(f"bin{number}"))


def failure(request: InstallRequest) -> ToolError:
    with pytest.raises(ToolError) as caught:
        install(request)
    assert "hunter22" not in caught.value.message
    assert not list(request.destination.glob("tofu*")), "nothing unverified may be unpacked"
    return caught.value


def test_a_signed_release_is_downloaded_verified_unpacked_and_cached(
    request_: InstallRequest, mirror: Mirror, signer: Signer
) -> None:
    mirror.publish("1.9.0", "tofu", "1.9.0", signer)
    tool = install(request_)
    assert tool.path.read_bytes() == BINARY
    assert stat.S_IMODE(tool.path.stat().st_mode) == 0o755
    assert tool.warnings == ()
    served = sum(mirror.requests.values())
    assert install(again(request_)).path.read_bytes() == BINARY
    assert sum(mirror.requests.values()) == served, "the second run is served from the cache"
    assert sorted(path.name for path in request_.cache_dir.iterdir()) == [
        "tofu_1.9.0_SHA256SUMS",
        "tofu_1.9.0_SHA256SUMS.gpgsig",
        "tofu_1.9.0_linux_amd64.zip",
    ]


def _trust(keys: Path, text: str) -> None:
    (keys / "any name").write_text(text)


def test_every_run_warns_of_a_key_that_expires_soon(request_: InstallRequest, mirror: Mirror, keys: Path) -> None:
    soon = Signer("Release <release@example.org>", validity_seconds=20 * 86400)
    _trust(keys, str(soon.cert))
    mirror.publish("1.9.0", "tofu", "1.9.0", soon)
    for attempt in (request_, again(request_)):  # from the mirror, and from the cache
        [warning] = install(attempt).warnings
        assert soon.cert.expiration is not None
        assert f"expires on {soon.cert.expiration:%Y-%m-%d}" in warning
        assert "in 19 days" in warning
        assert "MAGOS_RELEASE_KEYS" in warning


def test_a_key_with_time_left_is_not_talked_about(request_: InstallRequest, mirror: Mirror, keys: Path) -> None:
    later = Signer("Release <release@example.org>", validity_seconds=92 * 86400)
    _trust(keys, str(later.cert))
    mirror.publish("1.9.0", "tofu", "1.9.0", later)
    assert install(request_).warnings == ()


def test_a_release_signed_after_our_copy_of_the_key_expired_says_so(
    request_: InstallRequest, mirror: Mirror, signer: Signer, keys: Path
) -> None:
    expired = datetime.now(UTC) - timedelta(seconds=1)  # keys begin a minute before they are made
    _trust(keys, str(signer.expiring(expired)))
    mirror.publish("1.9.0", "tofu", "1.9.0", signer)
    error = failure(request_)
    assert error.reason is ToolReason.SIGNATURE_INVALID
    assert f"after our copy of the key expired on {expired:%Y-%m-%d}" in error.message
    assert "MAGOS_RELEASE_KEYS" in error.message


def test_the_version_directory_is_tried_with_a_v_second(
    request_: InstallRequest, mirror: Mirror, signer: Signer
) -> None:
    mirror.publish("v1.9.0", "tofu", "1.9.0", signer)
    assert install(request_).path.exists()


@pytest.mark.parametrize(
    ("distribution", "name", "suffix"),
    [
        (Distribution.OPENTOFU, "tofu", "sig"),
        (Distribution.TERRAFORM, "terraform", "gpgsig"),
        (Distribution.TERRAFORM, "terraform", "sig"),
    ],
)
def test_each_distribution_accepts_both_signature_suffixes(
    request_: InstallRequest, mirror: Mirror, signer: Signer, distribution: Distribution, name: str, suffix: str
) -> None:
    mirror.publish("1.9.0", name, "1.9.0", signer, suffix=suffix)
    request = msgspec.structs.replace(request_, distribution=distribution)
    assert install(request).path.name == name


def test_a_missing_version_names_version_and_both_addresses(request_: InstallRequest) -> None:
    error = failure(request_)
    assert error.reason is ToolReason.TOOL_DOWNLOAD_FAILED
    assert "/1.9.0 nor at http://127.0.0.1:" in error.message
    assert "/v1.9.0 (HTTP 404)" in error.message


def test_an_archive_that_was_tampered_with_is_refused_with_both_checksums(
    request_: InstallRequest, mirror: Mirror, signer: Signer
) -> None:
    mirror.publish("1.9.0", "tofu", "1.9.0", signer)
    mirror.files["/1.9.0/tofu_1.9.0_linux_amd64.zip"] = make_zip({"tofu": (b"evil", 0o755)})
    error = failure(request_)
    assert error.reason is ToolReason.CHECKSUM_MISMATCH
    assert "expected SHA-256 " in error.message
    assert ", found " in error.message
    assert not request_.cache_dir.exists()


def test_a_signature_by_a_strange_key_is_refused(request_: InstallRequest, mirror: Mirror, stranger: Signer) -> None:
    mirror.publish("1.9.0", "tofu", "1.9.0", stranger)
    error = failure(request_)
    assert error.reason is ToolReason.SIGNATURE_INVALID
    assert stranger.cert.fingerprint[:8] in error.message or "key" in error.message


def test_a_checksum_file_changed_after_signing_is_refused(
    request_: InstallRequest, mirror: Mirror, signer: Signer
) -> None:
    mirror.publish("1.9.0", "tofu", "1.9.0", signer)
    mirror.files["/1.9.0/tofu_1.9.0_SHA256SUMS"] += b"0" * 64 + b"  other.zip\n"
    assert failure(request_).reason is ToolReason.SIGNATURE_INVALID


def test_a_missing_signature_is_refused_unless_verification_is_off_and_then_warned_about(
    request_: InstallRequest, mirror: Mirror
) -> None:
    mirror.publish("1.9.0", "tofu", "1.9.0", None)
    error = failure(request_)
    assert error.reason is ToolReason.SIGNATURE_INVALID
    assert "tofu_1.9.0_SHA256SUMS.gpgsig" in error.message
    tool = install(msgspec.structs.replace(request_, verify_signatures=False))
    assert "MAGOS_VERIFY_SIGNATURES=false" in tool.warnings[0]
    with pytest.raises(ToolError, match="no signature"):
        install(again(request_))  # what was cached without signature does not serve a run that verifies


def test_without_any_key_the_error_names_the_setting(request_: InstallRequest, mirror: Mirror, signer: Signer) -> None:
    mirror.publish("1.9.0", "tofu", "1.9.0", signer)
    assert request_.keys_dir is not None
    (request_.keys_dir / "any name").unlink()
    error = failure(request_)
    assert error.reason is ToolReason.SIGNATURE_INVALID
    assert "MAGOS_RELEASE_KEYS" in error.message


def test_a_file_that_is_no_key_is_named(request_: InstallRequest, mirror: Mirror, signer: Signer) -> None:
    mirror.publish("1.9.0", "tofu", "1.9.0", signer)
    assert request_.keys_dir is not None
    (request_.keys_dir / "readme.txt").write_text("keys go here")
    assert "readme.txt" in failure(request_).message


def test_an_error_page_served_as_checksum_file_is_named_as_such(
    request_: InstallRequest, mirror: Mirror, signer: Signer
) -> None:
    mirror.publish("1.9.0", "tofu", "1.9.0", signer)
    mirror.files["/1.9.0/tofu_1.9.0_SHA256SUMS"] = b"<html>log in first</html>"
    error = failure(request_)
    assert error.reason is ToolReason.CHECKSUM_MISMATCH
    assert "error page" in error.message


@pytest.mark.parametrize("damage", ["truncated", "exchanged", "link", "gone", "directory"])
def test_a_bad_cache_is_replaced_by_one_download(
    request_: InstallRequest, mirror: Mirror, signer: Signer, damage: str
) -> None:
    archive = mirror.publish("1.9.0", "tofu", "1.9.0", signer)
    install(request_)
    cached = request_.cache_dir / "tofu_1.9.0_linux_amd64.zip"
    cached.unlink()
    if damage == "truncated":
        cached.write_bytes(archive[:-10])
    elif damage == "exchanged":
        cached.write_bytes(make_zip({"tofu": (b"evil", 0o755)}))
    elif damage == "link":
        cached.symlink_to("/etc/passwd")
    elif damage == "directory":
        cached.mkdir()
        (cached / "x").touch()
    tool = install(again(request_))
    assert tool.path.read_bytes() == BINARY
    assert mirror.requests["/1.9.0/tofu_1.9.0_linux_amd64.zip"] == 2
    if damage in {"truncated", "exchanged"}:
        assert "downloaded again" in tool.warnings[0]
    else:
        assert tool.warnings == ()
    assert cached.read_bytes() == archive


def test_a_passing_server_error_is_tried_again(request_: InstallRequest, mirror: Mirror, signer: Signer) -> None:
    mirror.publish("1.9.0", "tofu", "1.9.0", signer)
    mirror.failures["/1.9.0/tofu_1.9.0_linux_amd64.zip"] = [503]
    assert install(request_).path.exists()


def test_an_unreachable_mirror_is_named_without_userinfo(request_: InstallRequest) -> None:
    error = failure(msgspec.structs.replace(request_, mirror_base="http://u:hunter22@127.0.0.1:1/tofu"))
    assert error.reason is ToolReason.TOOL_DOWNLOAD_FAILED
    assert "http://127.0.0.1:1/tofu/1.9.0/" in error.message


@pytest.mark.parametrize(
    "entries",
    [
        {"/tofu": (b"x", 0o755)},
        {"../tofu": (b"x", 0o755)},
        {"tofu": (b"/etc/passwd", stat.S_IFLNK | 0o777)},
        {"tofu": (b"x", 0o755), "doc/../../x": (b"x", 0o644)},
        {"readme": (b"x", 0o644)},
    ],
)
def test_an_archive_that_leaves_its_directory_is_refused_whole(
    request_: InstallRequest, mirror: Mirror, signer: Signer, entries: dict[str, tuple[bytes, int]]
) -> None:
    mirror.publish("1.9.0", "tofu", "1.9.0", signer, archive=make_zip(entries))
    error = failure(request_)
    assert error.reason is ToolReason.TOOL_DOWNLOAD_FAILED
    assert list(request_.destination.iterdir()) == []


def test_an_archive_that_is_no_zip_is_refused(request_: InstallRequest, mirror: Mirror, signer: Signer) -> None:
    mirror.publish("1.9.0", "tofu", "1.9.0", signer, archive=b"not a zip at all")
    assert failure(request_).reason is ToolReason.TOOL_DOWNLOAD_FAILED


@pytest.mark.parametrize("version", ["1.11", "v1.11.4", ">= 1.5", "", "1.2.3-..", "../1.2.3", "1.2.3/../4"])
def test_a_version_that_no_release_has_is_refused_before_any_request(
    request_: InstallRequest, mirror: Mirror, version: str
) -> None:
    error = failure(msgspec.structs.replace(request_, version=version))
    assert error.reason is ToolReason.TOOL_DOWNLOAD_FAILED
    assert not mirror.requests


def test_an_unknown_architecture_is_refused(request_: InstallRequest) -> None:
    assert "riscv64" in failure(msgspec.structs.replace(request_, arch="riscv64")).message


def test_the_proxy_of_the_environment_is_used(
    request_: InstallRequest, mirror: Mirror, signer: Signer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a proxy is asked with the absolute URL: the mirror then sees that as its path
    mirror.publish("1.9.0", "tofu", "1.9.0", signer)
    mirror.files = {f"http://releases.invalid{path}": content for path, content in mirror.files.items()}
    monkeypatch.setenv("HTTP_PROXY", mirror.url)
    request = msgspec.structs.replace(request_, mirror_base="http://releases.invalid")
    assert install(request).path.exists()
    assert any(path.startswith("http://releases.invalid/") for path in mirror.requests)


def test_no_temporary_file_stays_behind(request_: InstallRequest, mirror: Mirror, signer: Signer) -> None:
    mirror.publish("1.9.0", "tofu", "1.9.0", signer)
    install(request_)
    assert sorted(path.name for path in request_.destination.parent.iterdir()) == ["bin", "cache", "keys"]
