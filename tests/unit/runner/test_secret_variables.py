"""Values of Secret-backed variables that are not declared sensitive: the plan tells them to those who read it."""

import io
import json
from pathlib import Path
from typing import cast

import msgspec
import pytest

from magos.api.result import Outcome
from magos.api.runnerpod import Stage
from magos.masking.redact import redact
from magos.masking.secretforms import secret_forms
from magos.runner.config import load_job, load_render
from magos.runner.context import Context
from magos.runner.job import evaluate
from magos.runner.journal import Journal
from magos.runner.paths import Paths
from magos.runner.process import Supervisor
from magos.runner.sensitive import carried_secrets, secret_values
from magos.runner.status import StageStatus, write_status
from tests.unit.runner.test_runner_config import ENV, RUN
from tests.unit.runner.test_runner_parts import field, plan_file

SECRET = "hunter2-hunter2"
PLAN = {
    "format_version": "1.2",
    "variables": {"password": {"value": SECRET}, "login": {"value": {"user": "user", "pin": [48151623]}}, "n": {}},
}


def plan_with(file: Path, variables: dict[str, str]) -> None:
    entries = [
        field(2, field(1, name.encode()) + field(2, field(1, msgspec.msgpack.encode((b'"string"', value)))))
        for name, value in variables.items()
    ]
    plan_file(file, b"".join(entries))


def test_the_plan_tells_the_values_of_the_named_variables_only() -> None:
    plan = json.dumps(PLAN).encode()
    assert secret_values(plan, {"password", "gone"}) == (SECRET,)
    forms = secret_forms(secret_values(plan, {"login", "n"}))
    assert redact(f"{SECRET} 48151623 user", forms) == f"{SECRET} *** user"
    assert secret_values(b"no JSON", ()) == ()
    with pytest.raises(ValueError, match="malformed"):
        secret_values(b"no JSON", {"x"})


def test_job_and_render_get_the_names() -> None:
    env = ENV | {"MAGOS_REDACT_ENV": "TF_VAR_password, CLOUD_TOKEN"}
    assert load_job(env).secret_variables == load_render(env).secret_variables == {"password"}


def test_render_learns_the_values_from_the_plan_file(tmp_path: Path) -> None:
    file = tmp_path / "run.tfplan"
    plan_with(file, {"password": SECRET})
    with file.open("rb") as plan:
        assert carried_secrets(plan, {"password", "gone"}) == (SECRET,)
    assert carried_secrets(io.BytesIO(b"no plan"), {"password"}) == ()


def test_job_masks_them_in_all_it_says_from_the_moment_it_reads_the_plan(tmp_path: Path) -> None:
    paths, journal = Paths(tmp_path), Journal()
    config = load_job(ENV | {"MAGOS_REDACT_ENV": "TF_VAR_password"})
    for stage in Stage.JOB.before(config.run.phase):
        write_status(paths, StageStatus(stage=stage, plan_digest=f"sha256:{'0' * 64}"))
    paths.plan_json.write_bytes(json.dumps(PLAN).encode())
    file = paths.inside(config.run.plan_file)
    file.parent.mkdir(parents=True)
    plan_with(file, {})
    result = evaluate(config, Context(paths, journal, cast("Supervisor", None)))
    assert (result.result, result.run_id) == (Outcome.SUCCEEDED, RUN)
    assert journal.masked(f"policy p: {SECRET}") == "policy p: ***"
    assert SECRET not in msgspec.json.encode(result).decode()
