"""Stage ``render``: the finished plan as JSON into the scratch, for ``job`` to read (spec §5.4, §7.1).

Starts the providers for their schemas and nothing else; needs no variables, no backend and no credentials. The JSON
holds sensitive values in clear: mode 0600, never printed, gone with the pod.

A provider may come from the repository and mean harm. The JSON is the tool's own all the same: neither this process nor
the tool is within a provider's reach (``magos.runner.shield``), the tool lies on a read-only mount, the plan is a copy
that no process can change, and the file has no name until no process but this one is left. If the first cannot be shown
to hold, the status says so. It also has the digest of that copy: of exactly the bytes that were shown, so it is the one
that ``job`` reports and an apply compares.
"""

import os
from pathlib import Path

import msgspec

from magos.api.reasons import Reason
from magos.api.runnerpod import Stage
from magos.masking.secretforms import secret_forms
from magos.runner.config import RenderConfig
from magos.runner.context import Context
from magos.runner.files import remove
from magos.runner.outcome import StageFailed
from magos.runner.planfile import is_plain_plan, sealed_plan
from magos.runner.sensitive import carried_secrets
from magos.runner.shield import self_exposure
from magos.runner.status import StageStatus
from magos.runner.tool import Tool


class Render:
    """One execution of the stage."""

    def __init__(self, config: RenderConfig, context: Context) -> None:
        self._config = config
        self._context = context
        self.status = StageStatus(stage=Stage.RENDER)

    def execute(self) -> None:
        """Write the plan JSON; raises ``StageFailed``."""
        paths, run = self._context.paths, self._config.run
        folder = paths.plan_json.parent
        folder.mkdir(parents=True, exist_ok=True)
        # The file has no name while anything but our own code runs: a provider must not find it and write to it.
        descriptor = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            tool = Tool(paths, run, self._context.supervisor)
            exposure = self._show(tool, descriptor)
            self._note(self_exposure() or exposure)
            if not self._context.supervisor.alone:
                raise StageFailed(Reason.PLAN_FAILED, "a provider left processes that cannot be ended; check the node")
            remove(paths.plan_json)
            _name(descriptor, paths.plan_json)
        finally:
            os.close(descriptor)

    def _show(self, tool: Tool, descriptor: int) -> str:
        """Write the JSON of the plan to ``descriptor``; return why it may not be what the tool wrote, if so."""
        run = self._config.run
        try:
            with self._context.paths.volume() as volume, sealed_plan(volume, run) as plan:
                with plan.opened() as content:
                    plain = is_plain_plan(content)
                    # What a provider prints of a secret variable's value while it starts is masked.
                    secrets = carried_secrets(content, self._config.secret_variables)
                    self._context.journal.mask_too(secret_forms(secrets))
                exposure = tool.show_json(plan, descriptor)
        except OSError as error:
            raise StageFailed(
                Reason.PLAN_FAILED,
                f"the plan of run {run.run_id} cannot be shown ({error}); check what the configuration writes to the"
                " Workspace's volume",
            ) from error
        self.status = StageStatus(stage=Stage.RENDER, plan_digest=plan.digest, plain_plan=plain)
        return exposure

    def _note(self, exposure: str) -> None:
        if not exposure:
            return
        if os.geteuid() == 0:  # never in a runner pod
            self._context.journal.say("running as root: nothing keeps the providers from changing the plan JSON")
            return
        self.status = msgspec.structs.replace(self.status, exposure=exposure)


def _name(descriptor: int, path: Path) -> None:
    """Give the file behind ``descriptor`` the name ``path`` (open(2), O_TMPFILE)."""
    own = os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.link(str(descriptor), path, src_dir_fd=own, follow_symlinks=True)
    finally:
        os.close(own)
