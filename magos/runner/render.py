"""Stage ``render``: the finished plan as JSON into the scratch, for ``job`` to read (spec §5.4, §7.1).

Starts the providers for their schemas and nothing else; needs no variables, no backend and no credentials. The JSON
holds sensitive values in clear: mode 0600, never printed, gone with the pod.
"""

import os

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
        paths.plan_json.parent.mkdir(parents=True, exist_ok=True)
        remove(paths.plan_json)
        descriptor = os.open(paths.plan_json, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            Tool(paths, run, self._context.supervisor).show_json(paths.inside(run.plan_file), descriptor)
        except BaseException:
            remove(paths.plan_json)
            raise
        finally:
            os.close(descriptor)
