"""Checksum files, shipped keys and archive names."""

import hashlib
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.toolchain.archive import entry_problem
from magos.toolchain.errors import ToolError, ToolReason
from magos.toolchain.releases import Distribution, architecture, release, shown
from magos.toolchain.verify import parse_checksums, release_keys, verify_signature

DATA = Path(__file__).parent / "data"
NAMES = st.from_regex(r"[A-Za-z0-9_.\-]{1,30}", fullmatch=True)
SUMS = st.binary(max_size=8).map(lambda content: hashlib.sha256(content).hexdigest())


@given(st.dictionaries(NAMES, SUMS, min_size=1), st.sampled_from(["  ", " *"]), st.sampled_from(["\n", "\r\n"]))
def test_a_checksum_file_reads_back_what_was_written(sums: dict[str, str], separator: str, end: str) -> None:
    text = end.join(f"{checksum.upper()}{separator}{name}" for name, checksum in sums.items()) + end
    assert parse_checksums(text) == sums


@given(st.text())
def test_any_text_is_parsed_or_refused_as_value_error(text: str) -> None:
    try:
        assert parse_checksums(text)
    except ValueError:
        return


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
