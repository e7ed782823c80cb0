"""Stage ``terraform``: ``init``, then ``plan`` or ``apply`` (spec §7.1).

The only stage that runs code of the configuration. A pod that is started twice runs that code once; an apply executes
only the plan whose digest the plan reported, at the revision that was planned, and the plan file is gone afterwards.
The plan is copied out of that code's reach before any of it runs; the copy is what is compared and what is applied.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

from magos.api.names import JobType
from magos.api.reasons import Reason
from magos.api.runnerpod import Stage, run_folder
from magos.folder import Folder
from magos.masking.message import cleared, compose
from magos.masking.secretforms import secret_forms
from magos.runner.checkout import Checkout
from magos.runner.config import TerraformConfig
from magos.runner.context import Context
from magos.runner.diagnostics import shorten
from magos.runner.markers import create_start_marker
from magos.runner.outcome import StageFailed
from magos.runner.planfile import carried_variables, sealed_plan
from magos.runner.room import Room
from magos.runner.sealed import Sealed
from magos.runner.state import StatePlace, require_persistent_state, state_place
from magos.runner.status import StageStatus, read_status
from magos.runner.tool import Tool
from magos.runner.unsaved import hand_over, keep_unsaved_state
from magos.runner.varfiles import overriding
from magos.terminal import one_line

_VARIABLE_PREFIX: Final = "TF_VAR_"
_MOST_WARNINGS: Final = 20
_FOR_US_ALONE: Final = 0o077


class Terraform:
    """One execution of the stage."""

    def __init__(self, config: TerraformConfig, context: Context) -> None:
        self._config = config
        self._context = context
        self.status = StageStatus(stage=Stage.TERRAFORM)

    def execute(self) -> None:
        """Run the phase; raises ``StageFailed``."""
        os.umask(_FOR_US_ALONE)  # plan files and states hold secrets
        run = self._config.run
        with self._context.paths.volume() as volume:
            room = Room(volume, self._context.paths, run, self._context.journal)
            room.insisted(lambda: create_start_marker(volume, run))
            # Held from now on: what this run leaves is removed from here, whatever gets the folder's name.
            with volume.folder(run_folder(run.run_id)) as own:
                if run.phase is JobType.PLAN:
                    self._plan(volume, own, room)
                else:
                    self._apply(volume, own, room)

    def _plan(self, volume: Folder, own: Folder, room: Room) -> None:
        config, context = self._config, self._context
        tool = Tool(self._context.paths, config.run, self._context.supervisor)
        try:
            with Checkout(self._context.paths, tool.module) as checkout:
                self._warn_of_overrides(checkout)
                self._init(tool, config.variables, room)
                room.retried(lambda: hand_over(volume, tool, config.variables, context, config.run))
                room.retried(lambda: checkout.save_lock_file(own, context.journal))
            room.retried(lambda: self._write_plan(tool, own))
            self._require_plan(volume)
        except BaseException:
            own.remove(config.run.plan_name)  # whatever a failed plan wrote must never be applied
            raise

    def _warn_of_overrides(self, checkout: Checkout) -> None:
        """Say which values of VariableSets are not used because a file of the repository sets the variable, too."""
        given = {name.removeprefix(_VARIABLE_PREFIX) for name in self._config.variables}
        found = overriding(checkout.overriding_files(self._config.run.tfvars), given)
        for variable, file in sorted(found.items())[:_MOST_WARNINGS]:
            self._context.journal.say(
                compose(
                    "warning: {file} sets the variable {variable}; the value of the VariableSet is not used, because"
                    " files of the repository override VariableSets; remove it from the file if the VariableSet is to"
                    " set it",
                    file=cleared(one_line(file)),
                    variable=cleared(variable),
                )
            )
        if len(found) > _MOST_WARNINGS:
            more = len(found) - _MOST_WARNINGS
            self._context.journal.say(cleared(f"warning: files of the repository set {more} more such variables"))

    def _write_plan(self, tool: Tool, own: Folder) -> None:
        own.remove(self._config.run.plan_name)  # only what this plan writes counts
        tool.plan(self._config.variables)

    def _apply(self, volume: Folder, own: Folder, room: Room) -> None:
        try:
            with self._planned(volume) as plan:
                own.remove(self._config.run.plan_name)
                self._compare(plan)
                self._apply_sealed(plan, volume, own, room)
        finally:
            own.remove(self._config.run.plan_name)

    def _apply_sealed(self, plan: Sealed, volume: Folder, own: Folder, room: Room) -> None:
        paths, config = self._context.paths, self._config
        tool = Tool(paths, config.run, self._context.supervisor)
        with Checkout(paths, tool.module) as checkout:
            checkout.restore_lock_file(own)
            given, planned = self._variables(plan)
            self._init(tool, {**given, **planned} if tool.evaluates_early else given, room)
            place = state_place(paths, config.run.environment)
            checkout.free_errored_state(self._context.journal)
            try:
                tool.apply(given, plan)
            except StageFailed as error:
                kept = self._keep_unsaved(volume, checkout, place, room)
                if not kept:
                    raise
                raise StageFailed(error.reason, shorten(f"{kept}; {error.message}")) from error
            except BaseException:
                self._keep_unsaved(volume, checkout, place, room)
                raise

    def _keep_unsaved(self, volume: Folder, checkout: Checkout, place: StatePlace, room: Room) -> str:
        """Keep a state that the backend did not take; return the message, empty if there was none.

        Every cache makes room for it: what is downloaded can be downloaded again.
        """
        run = self._config.run
        try:
            kept = room.insisted(lambda: keep_unsaved_state(volume, checkout, run, place))
        except OSError as error:
            text = f"the backend did not take the state, and the Workspace's volume could not keep it ({error})"
        else:
            if kept is None:
                return ""
            text = (
                f"the backend did not take the state; it is kept in /workspace-data/{kept} on the Workspace's volume"
                " and the next run hands it over (state push) before it plans"
            )
        self._context.journal.say(text)
        return text

    def _init(self, tool: Tool, variables: Mapping[str, str], room: Room) -> None:
        try:
            room.retried(lambda: tool.init(variables))
        except StageFailed as error:
            if error.reason is not Reason.VOLUME_FULL:
                raise
            room.emptied()  # a half of a provider is of no use
            self._context.journal.say("the plugin cache is done without: the providers do not fit on the volume")
            tool.init(variables, plugin_cache=False)
        room.reserve()
        if not self._config.allow_ephemeral_state:
            require_persistent_state(self._context.paths, self._config.run, tool.module)

    def _require_plan(self, volume: Folder) -> None:
        """Raise ``StageFailed`` if the tool left no plan where ``render`` looks for it."""
        run = self._config.run
        try:
            with volume.opened(f"{run_folder(run.run_id)}/{run.plan_name}"):
                return
        except OSError as error:
            raise StageFailed(
                Reason.PLAN_FAILED,
                f"the plan file of run {run.run_id} cannot be read back ({error.strerror or error}); check what the"
                " configuration writes to the Workspace's volume",
            ) from error

    @contextmanager
    def _planned(self, volume: Folder) -> Iterator[Sealed]:
        """Copy the plan to memory that no other process can change."""
        run = self._config.run
        with ExitStack() as held:
            try:
                plan = held.enter_context(sealed_plan(volume, run))
            except FileNotFoundError:
                raise StageFailed(
                    Reason.PLAN_MISMATCH,
                    f"the plan file of run {run.run_id} is missing (expected {run.plan_digest}); nothing was applied,"
                    " the next run plans again; check who removes files from the Workspace's volume",
                ) from None
            except OSError as error:
                raise StageFailed(
                    Reason.PLAN_MISMATCH,
                    f"the plan file of run {run.run_id} is unusable ({error.strerror or error}); nothing was applied,"
                    " the next run plans again; check who writes to the Workspace's volume",
                ) from error
            yield plan

    def _compare(self, plan: Sealed) -> None:
        run = self._config.run
        if plan.digest != run.plan_digest:
            raise StageFailed(
                Reason.PLAN_MISMATCH,
                f"the plan file has digest {plan.digest}, the plan of run {run.run_id} reported {run.plan_digest};"
                " nothing was applied, the next run plans again; check who writes to the Workspace's volume",
            )
        revision = read_status(self._context.paths, Stage.FETCH, run.phase).revision
        if revision != run.revision:
            raise StageFailed(
                Reason.PLAN_MISMATCH,
                f"the checkout is at {revision or 'no known revision'}, run {run.run_id} planned {run.revision};"
                " nothing was applied, the next run plans again",
            )

    def _variables(self, plan: Sealed) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return the TF_VAR_* to give again and those the plan carries, the latter with the value it carries.

        A tool that evaluates variables early needs the latter for its backend settings. A value that was rotated since
        the plan is in neither. Whatever the plan carries of a secret variable is masked, also where the variable is not
        given any more because its source has changed: the old value may still be in use.
        """
        given = self._config.variables
        with plan.opened() as stream:
            carried = carried_variables(stream)
        if carried is None:  # an encrypted plan; the tool itself refuses values that differ from it
            return given, {}
        planned = {name: carried[short] for name in given if (short := name.removeprefix(_VARIABLE_PREFIX)) in carried}
        known = {name: value for name, value in planned.items() if value is not None}
        names = {name.removeprefix(_VARIABLE_PREFIX) for name in self._config.secret_names}
        secrets = [value for short, value in carried.items() if short in names and value is not None]
        self._context.journal.mask_too(secret_forms(secrets))
        return {name: value for name, value in given.items() if name not in planned}, known
