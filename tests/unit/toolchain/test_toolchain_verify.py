"""Checksum files, shipped keys and archive names."""

import hashlib
import re
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from magos.api.tool import Distribution
from magos.toolchain.archive import entry_problem
from magos.toolchain.errors import ToolError, ToolReason
from magos.toolchain.keyexpiry import WARN_BEFORE, expiry_of, expiry_warning
from magos.toolchain.releases import architecture, release, shown
from magos.toolchain.verify import parse_checksums, release_keys, verify_signature

DATA = Path(__file__).parent / "data"
NAMES = st.from_regex(r"[A-Za-z0-9_.\-]{1,30}", fullmatch=True)
SUMS = st.binary(max_size=8).map(lambda content: hashlib.sha256(content).hexdigest())


@given(st.dictionaries(NAMES, SUMS, min_size=1), st.sampled_from(["  ", " *"]), st.sampled_from(["\n", "\r\n"]))
def test_a_checksum_file_reads_back_what_was_written(sums: dict[str, str], separator: str, end: str) -> None:
    text = end.join(f"{checksum.upper()}{separator}{name}" for name, checksum in sums.items()) + end
    assert parse_checksums(text) == sums


LINES = st.builds("{}{}{}".format, SUMS, st.sampled_from(["  ", " *", "\t", " ", ""]), NAMES)
MANGLED = st.lists(LINES | st.text(max_size=20) | st.just("<html>"), max_size=5).map("\n".join)


@given(st.text() | MANGLED)
@example("")
@example("\n \n")
@example("<html>sorry</html>")
@example("0" * 64)
@example("0" * 63 + "  a")
@example("\u0660" * 64 + "  a")  # digits, but not ours
@example("0" * 64 + "  a b")
@example("0" * 64 + "  a\u2028" + "1" * 64 + "  b")
@example("0" * 64 + "  a\x0c" + "1" * 64 + "  a")
@example("A" * 64 + " *a\r\n" + "a" * 64 + "  a")
def test_any_text_is_refused_or_every_line_of_it_is_understood(text: str) -> None:
    try:
        sums = parse_checksums(text)
    except ValueError:
        return
    expected: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        checksum, name = re.split("[ \t]+", line, maxsplit=1)
        expected[name[1:] if name.startswith("*") and len(name) > 1 else name] = checksum.lower()
    assert sums == expected != {}
    assert all(re.fullmatch("[0-9a-f]{64}", checksum) for checksum in sums.values())


def test_two_checksums_for_one_file_are_refused() -> None:
    with pytest.raises(ValueError, match="line 2"):
        parse_checksums("0" * 64 + "  a\n" + "1" * 64 + "  a\n")


@pytest.mark.parametrize(
    ("distribution", "fingerprint"),
    [
        (Distribution.TERRAFORM, "c874011f0ab405110d02105534365d9472d7468f"),
        (Distribution.OPENTOFU, "e3e6e43d84cb852eadb0051d0c0af313e5fd9f80"),
    ],
)
def test_the_shipped_keys_are_the_published_ones(distribution: Distribution, fingerprint: str) -> None:
    [key] = release_keys(None, distribution)
    assert key.fingerprint == fingerprint
    assert not key.is_revoked


@pytest.mark.parametrize(
    ("distribution", "name", "suffix"),
    [
        (Distribution.TERRAFORM, "terraform_1.9.8_SHA256SUMS", ".sig"),
        (Distribution.OPENTOFU, "tofu_1.8.5_SHA256SUMS", ".gpgsig"),
    ],
)
def test_the_shipped_keys_verify_a_real_release_of_the_past(distribution: Distribution, name: str, suffix: str) -> None:
    # the vendor has extended its key since: a key file with the latest self-signature alone would not do
    content = (DATA / name).read_bytes()
    signature = (DATA / (name + suffix)).read_bytes()
    keys = release_keys(None, distribution)
    verify_signature(content, signature, keys, "the vendor")
    with pytest.raises(ToolError, match="no valid signatures") as caught:
        verify_signature(content.replace(b"0", b"1", 1), signature, keys, "the vendor")
    assert caught.value.reason is ToolReason.SIGNATURE_INVALID
    assert "\n" not in caught.value.message
    other = next(item for item in Distribution if item is not distribution)
    with pytest.raises(ToolError):
        verify_signature(content, signature, release_keys(None, other), "the vendor")


def test_the_expiry_of_a_signing_subkey_is_its_own_newest_one_and_at_most_that_of_its_primary_key() -> None:
    keys = release_keys(None, Distribution.TERRAFORM)
    assert expiry_of(keys, "374ec75b485913604a831cc7c820c6d5cd27ab87") == datetime(2030, 3, 1, 23, 14, 24, tzinfo=UTC)
    assert expiry_of(keys, "C820C6D5CD27AB87") == datetime(2030, 3, 1, 23, 14, 24, tzinfo=UTC)
    assert expiry_of(keys, "b36cba91a2c0730c435fc280b0b441097685b676") == datetime(2022, 4, 20, 0, 8, 32, tzinfo=UTC)
    assert expiry_of(keys, "0" * 40) is None
    assert expiry_of(release_keys(None, Distribution.OPENTOFU), "0c0af313e5fd9f80") is None


@given(st.timedeltas(timedelta(days=-4000), timedelta(days=4000)))
def test_a_key_is_warned_about_from_ninety_days_before_it_expires(left: timedelta) -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    warning = expiry_warning("abc", now + left, now)
    assert (warning is None) == (left > WARN_BEFORE)
    if warning is not None:
        assert ("expired on" in warning) == (left <= timedelta(0))
        assert "MAGOS_RELEASE_KEYS" in warning
    assert expiry_warning("abc", None, now) is None


@given(st.text())
def test_an_accepted_entry_name_stays_inside(name: str) -> None:
    if entry_problem(name, 0) is None:
        parts = name.split("/")
        assert ".." not in parts
        assert not name.startswith("/")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_links_and_special_files_are_no_entries(kind: int) -> None:
    assert entry_problem("tofu", kind | 0o777) is not None


def test_names_follow_the_public_layout() -> None:
    found = release(Distribution.TERRAFORM, "1.11.4-rc1", "arm64")
    assert found.archive == "terraform_1.11.4-rc1_linux_arm64.zip"
    assert found.signatures == ("terraform_1.11.4-rc1_SHA256SUMS.sig", "terraform_1.11.4-rc1_SHA256SUMS.gpgsig")
    assert found.directories("https://m.example/t/") == (
        "https://m.example/t/1.11.4-rc1",
        "https://m.example/t/v1.11.4-rc1",
    )
    assert architecture("aarch64") == "arm64"
    assert architecture("x86_64") == "amd64"
    assert shown("https://u:p@m.example/a?token=x") == "https://m.example/a"
    assert shown("https://u:p@p@m.example/a") == "https://m.example/a"
