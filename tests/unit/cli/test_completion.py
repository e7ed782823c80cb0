"""Completion: the script, and names of objects out of the cluster, as long as that is quick."""

from typing import Any

import pytest

from magos.api.phases import Phase
from magos.cli.completion import names_in_cluster
from magos.cli.session import Session
from magos.errors import MagosError
from tests.sim.virtualtime import run_virtual
from tests.unit.cli.shop import Shop
from tests.unit.explain.objects import with_meta, workspace


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(shop: Shop, shell: str) -> None:
    printed = shop("completion", shell).out
    assert "_MAGOS_COMPLETE" in printed
    assert "magos" in printed


def _complete(shop: Shop, words: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("_MAGOS_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    return [line.partition(",")[2] for line in shop().out.splitlines()]


def test_names_are_completed_from_the_namespace_that_was_typed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.has(workspace(Phase.APPLIED), with_meta(workspace(Phase.APPLIED), name="preview"))
    assert _complete(shop, "magos approve -n team-a pr", monkeypatch) == ["preview", "prod"]
    assert shop.targets[-1].namespace == "team-a"
    assert "approve" in _complete(shop, "magos ap", monkeypatch)


def test_a_cluster_that_is_slow_or_away_completes_nothing(shop: Shop) -> None:

    slow = Session(connect=shop._connect, run=run_virtual)
    shop.server.latency = (60.0, 60.0)
    assert names_in_cluster(slow, {}, "workspaces") == []

    def fail(_: Any) -> Any:
        raise MagosError("no cluster")

    assert names_in_cluster(Session(run=fail), {"namespace": None}, "workspaces") == []
