"""Stage ``render``: the finished plan as JSON into the scratch, for ``job`` to read (spec §5.4, §7.1).

Starts the providers for their schemas and nothing else; needs no variables, no backend and no credentials. The JSON
holds sensitive values in clear: mode 0600, never printed, gone with the pod.
"""

import os
from pathlib import Path

from magos.runner.config import RenderConfig
from magos.runner.context import Context
from magos.runner.files import remove
from magos.runner.status import Stage, StageStatus
from magos.runner.tool import Tool

__all__ = ["Render"]


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
            Tool(paths, run, self._context.supervisor).show_json(paths.inside(run.plan_file), descriptor)
            remove(paths.plan_json)
            _name(descriptor, paths.plan_json)
        finally:
            os.close(descriptor)


def _name(descriptor: int, path: Path) -> None:
    """Give the file behind ``descriptor`` the name ``path`` (open(2), O_TMPFILE)."""
    own = os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.link(str(descriptor), path, src_dir_fd=own, follow_symlinks=True)
    finally:
        os.close(own)
