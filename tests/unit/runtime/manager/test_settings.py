"""Claims of magos/runtime/manager/settings.py."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.errors import ConfigurationError
from magos.runtime.manager.settings import Bind, Settings, parse_bind, parse_flags


def parse(*arguments: str, namespace: str = "magos-system") -> Settings:
    return parse_flags("workspace-controller", arguments, namespace=namespace, identity="pod-1")


def test_defaults_are_those_of_the_specification() -> None:
    assert parse() == Settings(namespace="magos-system", identity="pod-1")
    settings = parse()
    assert (settings.metrics, settings.metrics_secure) == (None, True)
    assert settings.health == Bind("", 8081)
    assert (settings.leader_elect, settings.workers, settings.log_level) == (False, 8, "info")


def test_switches_are_written_alone_or_with_a_value() -> None:
    assert parse("--leader-elect").leader_elect
    assert parse("--leader-elect=true").leader_elect
    assert not parse("--leader-elect=false").leader_elect
    assert not parse("--metrics-secure=false").metrics_secure


def test_zero_turns_a_server_off() -> None:
    assert parse("--health-probe-bind-address=0").health is None
    assert parse("--metrics-bind-address=:8443").metrics == Bind("", 8443)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--metrics-bind-address=8080",), "--metrics-bind-address"),
        (("--leader-elect=maybe",), "--leader-elect"),
        (("--max-concurrent-reconciles=0",), "--max-concurrent-reconciles"),
        (("--log-level=loud",), "--log-level"),
        (("--leader",), "--leader"),
        (("--unknown=1",), "--unknown"),
    ],
)
def test_a_wrong_flag_is_one_line_that_names_it(arguments: tuple[str, ...], named: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(*arguments)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_leader_election_needs_a_namespace() -> None:
    with pytest.raises(ConfigurationError, match="POD_NAMESPACE"):
        parse("--leader-elect", namespace="")


@given(st.sampled_from(["", "127.0.0.1", "::1", "localhost"]), st.integers(1, 65535))
def test_an_address_written_is_the_address_read(host: str, port: int) -> None:
    bind = Bind(host, port)
    assert parse_bind(str(bind)) == bind


@given(st.text(alphabet=":[]0123456789.a", max_size=12))
def test_every_other_text_is_refused_with_a_reason(text: str) -> None:
    with contextlib.suppress(ValueError):
        bind = parse_bind(text)
        assert bind is None or 0 < bind.port < 65536
        return
    with pytest.raises(ValueError, match="is not an address such as"):
        parse_bind(text)
