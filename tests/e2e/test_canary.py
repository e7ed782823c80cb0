"""No secret that goes in anywhere can be read anywhere but in the Secrets it came from (invariant I10)."""

import base64

import pytest

from tests.e2e.canary import Story, forms, story, traces
from tests.e2e.onemachine import OneMachine


@pytest.mark.parametrize("before", ["", "x", "xy", "xyz"])
def test_the_search_finds_a_secret_in_any_form(before: str) -> None:
    secret = 'c4nary/0123456789abcdef+"&='
    encoded = base64.b64encode(f"{before}{secret}; more".encode())
    wrapped = b"\n  ".join(encoded[at : at + 7] for at in range(0, len(encoded), 7))
    places = {"encoded": encoded, "wrapped": wrapped, "clean": b"nothing of it"}
    found = traces(Story(secrets={"s": secret}, places=places))
    assert {trace.place for trace in found} == {"encoded", "wrapped"}


def test_each_line_of_a_text_is_looked_for() -> None:
    assert {b"the first line", b"the second line"} <= set(forms("the first line\nthe second line\n"))


def test_secrets_that_go_in_anywhere_come_out_nowhere(equipped: OneMachine) -> None:
    told = story(equipped)
    assert traces(told) == []
    assert len(told.secrets) >= 19
    source = {trace.secret for trace in traces(Story(secrets=told.secrets, places={"source": told.source}))}
    assert source == set(told.secrets) - {"url"}, "a secret did not go in, or the search does not find it"
    assert len(told.places["API server"]) > 100_000
    assert b"workspace_reconcile_total" in told.places["metrics"]
    logs = [content for place, content in told.places.items() if place.endswith("terraform.log")]
    assert any(b"***" in content for content in logs)
    archived = {place: content for place, content in told.places.items() if place.startswith("archive: ")}
    assert {"archive: fine plan", "archive: fine apply", "archive: failing plan"} <= set(archived)
    assert any(b"***" in content for content in archived.values())
    assert any(b"***" in content for place, content in told.places.items() if place.startswith("live log: "))
    assert b"fine" in told.places["stream: workspaces"]
    assert b"fine" in told.places["database: public.runs"]
    pages = [place for place in told.places if place.startswith("page: /workspaces/")]
    assert len(pages) >= 5, "no links lead to the pages of the Workspaces"
