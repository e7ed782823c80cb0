"""The pages about configuration and reasons are what the programs say, and the specification leaves nothing out."""

import shutil
from pathlib import Path
from types import MappingProxyType

import pytest

from magos.api import explanations as table
from magos.api.explanations import explanations
from magos.api.reasons import FAILURES, Reason
from magos.errors import InvariantViolation
from magos.reference.__main__ import generated, main
from magos.reference.environment import controller_variables, stage_variables
from magos.reference.flags import common_flags, refwatcher_flags
from magos.reference.keys import annotation_keys, label_keys
from magos.reference.metrics import exposed_metrics
from magos.reference.pages import BEGIN, END, with_table
from magos.reference.server import server_variables

_ROOT = Path(__file__).parents[3]
_BEHAVIOUR = _ROOT / "docs" / "behaviour"


def test_the_pages_are_up_to_date() -> None:
    assert main(["--check", "--root", str(_ROOT)]) == 0


def test_a_page_that_was_edited_by_hand_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in generated(_ROOT).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    assert main(["--check", "--root", str(tmp_path)]) == 0
    errors = tmp_path / "docs/behaviour/errors.md"
    errors.write_text(errors.read_text("utf-8").replace("| `RunLost` |", "| `RunFound` |"), "utf-8")
    (tmp_path / "docs/spec/reasons.md").unlink()
    assert main(["--check", "--root", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert "docs/behaviour/errors.md is not what the code says" in told
    assert "docs/spec/reasons.md is not what the code says" in told
    assert main(["--root", str(tmp_path)]) == 0
    assert main(["--check", "--root", str(tmp_path)]) == 0
    shutil.rmtree(tmp_path)


def test_a_part_is_replaced_between_its_marks_and_nothing_else() -> None:
    page = f"# Head\n\n{BEGIN}\nold\n{END}\n\ntail\n"
    assert with_table(page, "new\n") == f"# Head\n\n{BEGIN}\n\nnew\n\n{END}\n\ntail\n"


@pytest.mark.parametrize("page", ["# Head\n", f"{BEGIN}\n", f"{END}\n", f"{BEGIN}\n{END}\n{BEGIN}\n{END}\n"])
def test_a_page_without_its_marks_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="must have the lines"):
        with_table(page, "new\n")


def test_every_failure_is_explained() -> None:
    assert explanations().keys() == FAILURES | {Reason.POLICY_VIOLATION}


def test_a_failure_without_explanation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = {reason: each for reason, each in explanations().items() if reason is not Reason.RUN_LOST}
    monkeypatch.setattr(table, "_TABLE", MappingProxyType(fewer))
    with pytest.raises(InvariantViolation, match="RunLost"):
        explanations()


METRICS = [metric.name for metric in exposed_metrics()]
FLAGS = [flag.name for flag in (*common_flags(), *refwatcher_flags())]
SETTINGS = [variable.name for variable in controller_variables() if not variable.handed_on]
API_SETTINGS = [variable.name for variable in server_variables()]
VARIABLES = [variable.name for variable in stage_variables()]
KEYS = [row.key for row in (*annotation_keys(), *label_keys())]


def test_metrics_flags_variables_and_keys_are_found() -> None:
    assert {"workspace_active_count", "refwatcher_poll_total", "workqueue_depth"} <= set(METRICS)
    assert {"--leader-elect", "--worker-count"} <= set(FLAGS)
    assert {"MAGOS_JOB_IMAGE", "MAGOS_PVC_SIZE"} <= set(SETTINGS)
    assert {"TF_VAR_<name>", "GIT_PASSWORD", "GIT_SSH_PRIVATE_KEY", "MAGOS_POLICIES_DIGEST"} <= set(VARIABLES)
    assert {"magosproject.io/execution-allowed", "magosproject.io/run-id"} <= set(KEYS)


@pytest.mark.parametrize(
    ("pages", "names"),
    [
        (("observability.md",), METRICS),
        (("deployment.md",), FLAGS),
        (("deployment.md", "history.md"), SETTINGS),
        (("history.md", "api-and-ui.md"), API_SETTINGS),
        (("contracts.md",), VARIABLES),
        (("contracts.md",), KEYS),
    ],
    ids=["metrics", "flags", "settings", "settings of the API server", "variables", "keys"],
)
def test_the_specification_names_all_of_them(pages: tuple[str, ...], names: list[str]) -> None:
    text = "".join((_BEHAVIOUR / page).read_text("utf-8") for page in pages).replace("`mp/", "`magosproject.io/")
    assert [name for name in names if f"`{name}" not in text] == []
