"""A controller process loads what its own kind needs, and no code of another one; asked of fresh interpreters."""

import json
import subprocess
import sys
from functools import cache

import pytest

SHARED = frozenset(
    {
        "archive",
        "effects",
        "events",
        "members",
        "permission",
        "rejections",
        "revisions",
        "statuses",
        "storedtimes",
        "trouble",
    }
)
"""Modules of ``magos.reconcilers`` that several kinds share."""

_ASK = "import json, sys, magos.apps.{}; print(json.dumps([m for m in sys.modules if m.startswith('magos.')]))"


@cache
def loaded(program: str) -> frozenset[str]:
    done = subprocess.run(
        [sys.executable, "-c", _ASK.format(program)], capture_output=True, text=True, check=True, timeout=60
    )
    return frozenset(json.loads(done.stdout))


def parts(program: str, package: str) -> frozenset[str]:
    """Return the modules and packages directly in ``package`` that the program loads."""
    begin = f"{package}."
    return frozenset(name.removeprefix(begin).split(".")[0] for name in loaded(program) if name.startswith(begin))


KINDS = ("workspace", "project", "rollout", "variableset", "refwatcher")


@pytest.mark.parametrize("kind", KINDS)
def test_a_controller_loads_the_reconciler_of_its_own_kind_alone(kind: str) -> None:
    assert parts(kind, "magos.reconcilers") - SHARED == {kind}


@pytest.mark.parametrize("kind", KINDS)
def test_a_controller_loads_nothing_of_the_runner_and_of_the_one_machine_mode(kind: str) -> None:
    assert not parts(kind, "magos") & {"runner", "toolchain", "local", "cli", "reference"}


@pytest.mark.parametrize("kind", KINDS)
def test_only_refwatcher_loads_git_and_masking(kind: str) -> None:
    assert parts(kind, "magos") & {"git", "masking"} == ({"git", "masking"} if kind == "refwatcher" else set())


@pytest.mark.parametrize("kind", KINDS)
def test_a_controller_loads_no_other_composition_root(kind: str) -> None:
    kept = {"archiving", "stores"} if kind == "workspace" else set()
    assert parts(kind, "magos.apps") - kept == {"controllers", kind}


def test_pid_1_of_a_stage_blocks_signals_before_anything_else_is_loaded() -> None:
    assert loaded("job") == {"magos.apps", "magos.apps.job"}
