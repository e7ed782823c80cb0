"""Stage ``terraform``: ``init``, then ``plan`` or ``apply`` (spec §7.1).

The only stage that runs code of the configuration. A pod that is started twice runs it once; an apply executes only the
plan file whose digest the plan reported, at the revision that was planned, and the plan file is gone afterwards.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from magos.api.names import JobType
from magos.api.reasons import Reason
from magos.runner.config import TerraformConfig
from magos.runner.context import Context
from magos.runner.diagnostics import shorten
from magos.runner.files import open_regular, remove
from magos.runner.markers import claim_start, remove_other_runs
from magos.runner.outcome import StageFailed
from magos.runner.planfile import carried_variables, file_digest
from magos.runner.redact import secret_forms
from magos.runner.state import require_persistent_state
from magos.runner.status import Stage, StageStatus, read_status
from magos.runner.tool import Tool
from magos.runner.unsaved import keep_unsaved_state, shown_path, unsaved_states

__all__ = ["Terraform"]

_VARIABLE_PREFIX: Final = "TF_VAR_"


class Terraform:
    """One execution of the stage."""

    def __init__(self, config: TerraformConfig, context: Context) -> None:
        self._config = config
        self._context = context
        self.status = StageStatus(stage=Stage.TERRAFORM)

    def execute(self) -> None:
        """Run the phase; raises ``StageFailed``."""
        paths, run = self._context.paths, self._config.run
        plan = paths.inside(run.plan_file)
        claim_start(paths, run)
        cache = run.environment.get("TF_PLUGIN_CACHE_DIR")
        if cache:
            paths.inside(cache).mkdir(parents=True, exist_ok=True)
        if run.phase is JobType.PLAN:
            self._plan(plan)
        else:
            try:
                self._apply(plan)
            finally:
                remove(plan)
                remove(paths.plan_copy)

    def _plan(self, plan: Path) -> None:
        paths, config = self._context.paths, self._config
        removed = remove_other_runs(paths, config.run)
        if removed:
            self._context.journal.say(f"removed the files of {removed} earlier run(s)")
        tool = Tool(paths, config.run, self._context.supervisor)
        try:
            self._init(tool, config.variables)
            self._push_unsaved(tool)
            if tool.lock_file.is_file():
                shutil.copyfile(tool.lock_file, plan.parent / tool.lock_file.name)
            tool.plan(config.variables, plan)
        except BaseException:
            remove(plan)  # whatever a failed plan wrote must never be applied
            raise

    def _apply(self, plan: Path) -> None:
        paths, config = self._context.paths, self._config
        self._take(plan)
        self._compare()
        tool = Tool(paths, config.run, self._context.supervisor)
        saved = plan.parent / tool.lock_file.name
        if saved.is_file() and not saved.is_symlink():
            remove(tool.lock_file)
            shutil.copyfile(saved, tool.lock_file)
        given, planned = self._variables()
        self._init(tool, {**given, **planned} if tool.evaluates_early else given)
        try:
            tool.apply(given, paths.plan_copy)
        except StageFailed as error:
            kept = self._keep_unsaved(tool)
            raise StageFailed(error.reason, shorten(f"{kept}; {error.message}")) if kept else error from error
        except BaseException:
            self._keep_unsaved(tool)
            raise

    def _keep_unsaved(self, tool: Tool) -> str:
        """Keep a state that the backend did not take; return what to tell, empty if there was none."""
        paths = self._context.paths
        try:
            kept = keep_unsaved_state(paths, self._config.run, tool.module)
        except OSError as error:
            told = f"the backend did not take the state, and the Workspace's volume could not keep it ({error})"
        else:
            if kept is None:
                return ""
            told = (
                f"the backend did not take the state; it is kept in {shown_path(paths, kept)} on the Workspace's volume"
                " and the next run hands it over (state push) before it plans"
            )
        self._context.journal.say(told)
        return told

    def _push_unsaved(self, tool: Tool) -> None:
        paths = self._context.paths
        for kept in unsaved_states(paths):
            shown = shown_path(paths, kept)
            self._context.journal.say(f"handing the state of an earlier run over to the backend: {shown}")
            try:
                tool.push_state(self._config.variables, kept)
            except StageFailed as error:
                raise StageFailed(
                    error.reason,
                    shorten(
                        f"the backend still does not take {shown}, the state that run {kept.stem} left; nothing was"
                        " planned, because that would create its resources again; remove the file from the volume if"
                        f" the backend's state is right without it; {error.message}"
                    ),
                ) from error
            remove(kept)

    def _init(self, tool: Tool, variables: Mapping[str, str]) -> None:
        tool.init(variables)
        if not self._config.allow_ephemeral_state:
            require_persistent_state(self._context.paths.data, tool.module, self._context.paths.work)

    def _take(self, plan: Path) -> None:
        """Move the plan to the memory-backed volume, where no other container can reach it."""
        copy = self._context.paths.plan_copy
        copy.parent.mkdir(parents=True, exist_ok=True)
        remove(copy)
        try:
            with open_regular(plan) as source:
                descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with os.fdopen(descriptor, "wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
        except FileNotFoundError:
            raise StageFailed(
                Reason.PLAN_MISMATCH,
                f"the plan file of run {self._config.run.run_id} is missing (expected"
                f" {self._config.run.plan_digest}); nothing was applied, the next run plans afresh; check who removes"
                " files from the Workspace's volume",
            ) from None
        except OSError as error:
            raise StageFailed(
                Reason.PLAN_MISMATCH,
                f"the plan file of run {self._config.run.run_id} is unusable ({error.strerror or error}); nothing was"
                " applied, the next run plans afresh; check who writes to the Workspace's volume",
            ) from error
        remove(plan)

    def _compare(self) -> None:
        run = self._config.run
        digest = file_digest(self._context.paths.plan_copy)
        if digest != run.plan_digest:
            raise StageFailed(
                Reason.PLAN_MISMATCH,
                f"the plan file has digest {digest}, the plan of run {run.run_id} reported {run.plan_digest}; nothing"
                " was applied, the next run plans afresh; check who writes to the Workspace's volume",
            )
        revision = read_status(self._context.paths, Stage.FETCH, run.phase).revision
        if revision != run.revision:
            raise StageFailed(
                Reason.PLAN_MISMATCH,
                f"the checkout is at {revision or 'no known revision'}, run {run.run_id} planned {run.revision};"
                " nothing was applied, the next run plans afresh",
            )

    def _variables(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return the TF_VAR_* to give again and those the plan carries, the latter with the value it carries.

        A tool that evaluates variables early needs the latter for its backend settings. A value that was rotated since
        the plan is in neither. Whatever the plan carries of a secret variable is masked, also where the variable is not
        given any more because its source has changed: the old value may still be in use.
        """
        given = self._config.variables
        carried = carried_variables(self._context.paths.plan_copy)
        if carried is None:  # an encrypted plan; the tool itself refuses values that differ from it
            return given, {}
        planned = {name: carried[short] for name in given if (short := name.removeprefix(_VARIABLE_PREFIX)) in carried}
        known = {name: value for name, value in planned.items() if value is not None}
        names = {name.removeprefix(_VARIABLE_PREFIX) for name in self._config.secret_names}
        secrets = [value for short, value in carried.items() if short in names and value is not None]
        self._context.journal.mask_too(secret_forms(secrets))
        return {name: value for name, value in given.items() if name not in planned}, known
