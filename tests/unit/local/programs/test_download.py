"""Checksum listings as publishers write them."""

from hypothesis import given
from hypothesis import strategies as st

from magos.local.programs.download import parse_checksum

_HEX = st.text("0123456789abcdef", min_size=64, max_size=64)
_NAME = st.from_regex(r"[a-z][a-z0-9_.\-]{0,30}", fullmatch=True)


@given(st.dictionaries(_NAME, _HEX, min_size=1), st.data(), st.sampled_from(["  ", " *"]))
def test_a_checksum_is_found_for_exactly_its_file(listing: dict[str, str], data: st.DataObject, gap: str) -> None:
    text = "".join(f"{digest}{gap}{name}\n" for name, digest in listing.items())
    wanted = data.draw(st.sampled_from(sorted(listing)))
    assert parse_checksum(text, wanted) == listing[wanted]
    assert parse_checksum(text, wanted + "x") == listing.get(wanted + "x")


@given(_HEX, _NAME)
def test_a_bare_checksum_is_the_one_of_the_file_beside_it(digest: str, name: str) -> None:
    assert parse_checksum(digest + "\n", name) == digest


@given(st.text(), _NAME)
def test_any_text_yields_a_sha256_it_contains_or_none(text: str, name: str) -> None:
    found = parse_checksum(text, name)
    assert found is None or (len(found) == 64 and found in text.lower())
