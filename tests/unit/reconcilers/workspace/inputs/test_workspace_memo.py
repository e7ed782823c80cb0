"""What is remembered between passes is never wrong, and an idle pass is cheap."""

import time
from typing import Any

from msgspec.structs import replace

from magos.api.kube import JOBS, PODS
from magos.api.meta import Kind
from magos.api.workspace import WORKSPACES
from magos.reconcilers.workspace.inputs.memo import Memo
from magos.reconcilers.workspace.inputs.specification import _digests, specification_hash
from magos.reconcilers.workspace.machine import reconcile
from magos.reconcilers.workspace.observation import BY_WORKSPACE, _inputs, observe, workspace_index
from magos.runtime.decision import Request
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.model import NAME, NAMESPACE, ModelView, workspace_manifest

BOUND = 0.0005
"""Seconds; on an idle machine a pass takes well under 0.0001, this bound only catches work done twice over."""


class Indexed(ModelView):
    """A view whose index is one, like the caches'."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        key = workspace_index(NAMESPACE, NAME)
        self._indexed = {kind.resource: super(Indexed, self).by_index(kind, BY_WORKSPACE, key) for kind in (JOBS, PODS)}

    def by_index(self, kind: Kind[Any], index: str, value: str) -> tuple[Any, ...]:
        assert (index, value) == (BY_WORKSPACE, workspace_index(NAMESPACE, NAME))
        return self._indexed[kind.resource]


def test_the_same_objects_are_computed_once_and_others_anew() -> None:
    memo: Memo[int] = Memo(2)
    calls: list[int] = []

    def compute() -> int:
        calls.append(1)
        return len(calls)

    one, other = object(), object()
    here, there, elsewhere = ("n", "here"), ("n", "there"), ("n", "elsewhere")
    assert (memo.of(here, (one,), compute), memo.of(here, (one,), compute)) == (1, 1)
    assert memo.of(here, (one, other), compute) == 2
    assert memo.of(here, (one,), compute) == 3  # only the latest is kept
    assert memo.of(there, (one,), compute) == 4
    assert memo.of(elsewhere, (one,), compute) == 5  # the bound: everything is forgotten
    assert len(memo) == 1
    memo.forget(elsewhere)
    assert len(memo) == 0


def test_a_workspace_that_is_gone_leaves_nothing_behind() -> None:
    model = Cluster()
    model.to_applied()
    model.user_deletes(WORKSPACES, NAME)
    for _ in range(4):
        model.step()
    assert model.get(WORKSPACES, NAME) is None
    known = (len(_inputs), len(_digests))
    model.step()
    assert (len(_inputs), len(_digests)) == known
    assert (NAMESPACE, NAME) not in {*_inputs._known, *_digests._known}


def test_short_lived_objects_are_never_mistaken_for_each_other() -> None:
    hashes = set()
    for number in range(200):
        workspace = workspace_manifest(service_account_name=f"account-{number}")
        hashes.add(specification_hash(workspace, None))
        assert specification_hash(replace(workspace, spec=replace(workspace.spec)), None) in hashes
    assert len(hashes) == 200


def test_an_idle_pass_is_cheap() -> None:
    model = Cluster()
    model.to_applied()
    model.settle()
    model.sync()
    view = Indexed(model.cache, {}, None)
    request = Request(namespace=NAMESPACE, name=NAME)

    def a_pass() -> float:
        began = time.process_time()
        for _ in range(20):
            assert reconcile(observe(request, view, model.now, model.settings, b"abcd")).status is None
        return (time.process_time() - began) / 20

    assert min(a_pass() for _ in range(50)) < BOUND
