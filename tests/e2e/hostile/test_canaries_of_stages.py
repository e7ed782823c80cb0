"""Whoever controls the code that runs in a stage finds in its container the secrets of that stage and no others.

Real containers with the mounts, the user and the environment of real pods; the real tool, Git, OpenSSH and Kyverno.
"""

import os
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

import pytest

from magos.local.servers.mirror import ReleaseMirror
from tests.e2e.hostile.origins import http_origin, ssh_origin, stranger
from tests.e2e.hostile.stagepod import CANARIES, Search, StagePod

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="containers with their own user need root")

_ENVIRONMENT = ("environ *", "memory *")
_TOKEN = "file /var/run/secrets/kubernetes.io/serviceaccount/token"
_PLAN = "file /workspace-data/runs/*/run.tfplan"
_OF_TERRAFORM = {
    "pod variable": _ENVIRONMENT,
    "pod secret": _ENVIRONMENT,
    "token": (_TOKEN,),
}

ALLOWED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "fetch": {},
    "plan": {"variable": (*_ENVIRONMENT, _PLAN), **_OF_TERRAFORM},
    "apply": _OF_TERRAFORM,
    "render": {"variable": (_PLAN,)},
    "job": {
        "variable": (_PLAN, "file /scratch/render/plan.json"),
        "policies": ("file /policies/*", "file /tmp/policy-evaluation/policies/*"),
    },
}
"""Where a secret may be found, by stage and secret, as patterns; nowhere if it is not listed. A plan holds the values
of variables: the stages that show and judge it read it, and nothing else of them. An apply takes them from its plan,
whose file is gone and whose copy is out of reach while code of the configuration runs."""


@pytest.fixture(scope="module", params=["http", "ssh"])
def searches(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, mirror: ReleaseMirror
) -> Iterator[Mapping[str, Search]]:
    """What was found in each stage of a plan and an apply."""
    if os.environ.get("MAGOS_KYVERNO") == "off":
        pytest.skip("MAGOS_KYVERNO=off")
    opened = http_origin if request.param == "http" else ssh_origin
    folder = tmp_path_factory.mktemp(f"stages-{request.param}")
    with opened(folder / "origin") as origin, stranger() as somebody:
        yield StagePod(folder / "pod", origin, mirror).search(somebody)


@pytest.mark.parametrize("canary", CANARIES)
@pytest.mark.parametrize("stage", ALLOWED)
def test_a_stage_holds_its_own_secrets_and_no_others(searches: Mapping[str, Search], stage: str, canary: str) -> None:
    allowed = ALLOWED[stage].get(canary, ())
    found = searches[stage].found[canary]
    assert [place for place in found if not any(fnmatchcase(place, pattern) for pattern in allowed)] == []
    # What belongs here is found: so the secret was given, and the search sees it.
    assert bool(found) is bool(allowed)


@pytest.mark.parametrize("stage", ALLOWED)
def test_the_search_looks_everywhere(searches: Mapping[str, Search], stage: str) -> None:
    searched = searches[stage].searched
    assert min(searched[kind] for kind in ("file", "environ", "cmdline")) > 0
    assert searched["memory refused"] > 0, "the runner itself cannot be looked into"
    if stage == "fetch":
        assert searched["socket"] > 0, "the helpers of Git listen"
