"""Stage ``fetch``: source, tool and modules, verified, into the pod's own work volume (spec §7.1).

The only stage with Git credentials. It runs no code of the configuration, but the module download evaluates and copies
what the configuration says: it may use the credentials and never holds them. They are in the memory of this process
alone by then; the key file of the checkout is gone.
"""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from magos.api.reasons import Reason
from magos.api.runnerpod import Stage
from magos.git.errors import GitError
from magos.runner.background import Background
from magos.runner.config import FetchConfig
from magos.runner.context import Context
from magos.runner.files import remove
from magos.runner.outcome import StageFailed
from magos.runner.room import EVICTED, Room
from magos.runner.shield import EXECUTE_ONLY
from magos.runner.status import StageStatus
from magos.runner.tool import Tool, inside_tree
from magos.toolchain.errors import ToolError

if TYPE_CHECKING:
    from magos.toolchain.install import InstalledTool

_CHECKOUT: Final = "git-"
_ACCESS: Final = "access-"


class Fetch:
    """One execution of the stage. ``status`` tells how far it got, also after an exception."""

    def __init__(self, config: FetchConfig, context: Context) -> None:
        self._config = config
        self._context = context
        self._evicted = False
        self.status = StageStatus(stage=Stage.FETCH)

    def execute(self) -> None:
        """Fetch everything; raises ``StageFailed``."""
        paths = self._context.paths
        private = [*paths.tmp.glob(f"{_CHECKOUT}*"), *paths.work.glob(f"{_ACCESS}*")]
        for leftover in (paths.source, paths.tool, paths.data, *private):
            remove(leftover)  # of an earlier start of this container; of a checkout that was killed, its key too
        paths.work.mkdir(parents=True, exist_ok=True)
        paths.tmp.mkdir(parents=True, exist_ok=True)
        with paths.volume() as volume:
            Room(volume, paths, self._config.run, self._context.journal).clean()
        # Unpacking takes as long as everything else together and needs nothing of it.
        installing = Background(self._install)
        try:
            with tempfile.TemporaryDirectory(prefix=_CHECKOUT, dir=paths.tmp) as workdir:
                self._checkout(Path(workdir))
            self._check_paths()
            self._context.journal.say(f"installing {self._config.run.distribution} {self._config.run.version}")
            tool = installing.result()
            if self._evicted:
                self._context.journal.say(EVICTED)
            self._note(tool_version=tool.version, warnings=tool.warnings)
            # On the volume that the tool is started from, because git starts a program there.
            with tempfile.TemporaryDirectory(prefix=_ACCESS, dir=paths.work) as directory:
                self._modules(Path(directory))
        except (GitError, ToolError) as error:
            raise StageFailed(Reason(error.reason.value), error.message) from error

    def _checkout(self, workdir: Path) -> None:
        from magos.git.checkout import CheckoutRequest, checkout
        from magos.git.url import strip_userinfo

        run = self._config.run
        say = self._context.journal.say
        say(f"fetching {strip_userinfo(run.repo_url)} at {run.revision or run.target_revision}")
        export = checkout(
            CheckoutRequest(
                url=run.repo_url,
                target_revision=run.target_revision,
                destination=self._context.paths.source,
                workdir=workdir,
                revision=run.revision,
                allowed_schemes=self._config.allowed_schemes,
                credentials=self._config.credentials,
                peers=self._config.peers,
            )
        )
        self._note(revision=export.revision, warnings=export.warnings)
        say(f"checked out {export.revision}: {export.files} files, {export.bytes} bytes")

    def _check_paths(self) -> None:
        run = self._config.run
        source = self._context.paths.source
        if not inside_tree(source, run.path, "spec.source.path").is_dir():
            raise _wrong("spec.source.path", run.path, "directory")
        if run.tfvars and not inside_tree(source, run.tfvars, "spec.terraform.tfvarsPath").is_file():
            raise _wrong("spec.terraform.tfvarsPath", run.tfvars, "file")

    def _install(self) -> "InstalledTool":
        from magos.toolchain.install import InstallRequest, install

        run = self._config.run
        paths = self._context.paths
        keys = self._config.release_keys
        tool = install(
            InstallRequest(
                distribution=run.distribution,
                version=run.version,
                cache_root=paths.workspace_data,
                cache_dir=paths.tool_cache / run.distribution / run.version,
                destination=paths.tool,
                mirror_base=self._config.mirror,
                keys_dir=Path(keys) if keys else None,
                verify_signatures=self._config.verify_signatures,
                peers=self._config.peers,
                make_room=self._make_room,
            )
        )
        tool.path.chmod(EXECUTE_ONLY)  # no process needs to read it, and what it starts cannot reach into it
        return tool

    def _make_room(self, wanted: int) -> bool:
        # A hold of its own: the installation may outlive a checkout that fails.
        with self._context.paths.volume() as volume:
            self._evicted = Room(volume, self._context.paths, self._config.run, self._context.journal).made(wanted)
        return self._evicted

    def _modules(self, directory: Path) -> None:
        from magos.git.gitaccess import git_access
        from magos.git.url import parse

        config = self._config
        tool = Tool(self._context.paths, config.run, self._context.supervisor)
        search_path = config.run.environment.get("PATH", os.defpath)
        url = parse(config.run.repo_url)
        schemes, peers = config.allowed_schemes, config.peers
        with git_access(url, config.credentials, schemes, directory, search_path=search_path, peers=peers) as access:
            tool.get(access)

    def _note(self, *, revision: str = "", tool_version: str = "", warnings: tuple[str, ...] = ()) -> None:
        before = self.status
        self.status = StageStatus(
            stage=Stage.FETCH,
            revision=revision or before.revision,
            tool_version=tool_version or before.tool_version,
            warnings=(*before.warnings, *warnings),
        )
        for warning in warnings:
            self._context.journal.say(f"warning: {warning}")


def _wrong(field: str, value: str, kind: str) -> StageFailed:
    return StageFailed(
        Reason.INVALID_CONFIGURATION, f"{field} is {value!r}, which is not a {kind}; name a {kind} of the repository"
    )
