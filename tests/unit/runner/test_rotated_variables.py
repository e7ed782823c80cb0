"""What an apply does with variables whose source has changed since the plan (spec §6.2.8, invariant I10)."""

from pathlib import Path
from typing import cast

import msgspec

from magos.runner.config import load_terraform
from magos.runner.context import Context
from magos.runner.journal import Journal
from magos.runner.paths import Paths
from magos.runner.process import Supervisor
from magos.runner.sealed import sealed
from magos.runner.terraform import Terraform
from tests.unit.runner.test_runner_config import APPLY, ENV
from tests.unit.runner.test_runner_parts import field, plan_file

OLD = "old-password-4711"


def test_the_old_value_of_a_rotated_secret_is_masked_although_the_variable_is_not_given(tmp_path: Path) -> None:
    packed = msgspec.msgpack.encode((b'"string"', OLD))
    file = plan_file(tmp_path / "plan", field(2, field(1, b"password") + field(2, field(1, packed))))
    environment = {**ENV, **APPLY, "TF_VAR_size": "small", "MAGOS_REDACT_ENV": "TF_VAR_password"}
    journal = Journal()
    nothing_runs = cast("Supervisor", None)
    stage = Terraform(load_terraform(environment), Context(Paths(tmp_path), journal, nothing_runs))
    with file.open("rb") as content, sealed(content, "plan") as plan:
        given, known = stage._variables(plan)
    assert (given, known) == ({"TF_VAR_size": "small"}, {})
    assert OLD not in journal.masked(f"connecting with {OLD}")
