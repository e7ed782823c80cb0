"""A real container of stage ``fetch`` with a repository Secret, whose ``get`` can be looked at while it runs."""

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from magos.api.runnerpod import Stage
from magos.local.servers.mirror import ReleaseMirror
from tests.e2e.canary import forms
from tests.e2e.hostile.origins import Origin, Stranger
from tests.e2e.runner.nodepod import NodePod
from tests.e2e.runner.pod import until

__all__ = ["FetchPod"]

_USER = "65532"
_WRAPPING = re.compile("[\\s│]+".encode())
"""What the tool puts into a long line of its messages."""


class FetchPod:
    """The pod of a Workspace whose repository is ``configuration.git`` at ``origin``."""

    def __init__(self, folder: Path, origin: Origin, mirror: ReleaseMirror) -> None:
        settings = {
            "MAGOS_OPENTOFU_MIRROR": mirror.url,
            "MAGOS_RELEASE_KEYS": "/workspace-data/keys",
            "MAGOS_ALLOWED_GIT_SCHEMES": "http,ssh",
        }
        self.origin = origin
        self.pod = NodePod(folder, settings, repo_url=origin.url("configuration.git"), secret=origin.secret)
        subprocess.run(["cp", "-r", str(mirror.keys), str(self.pod.volume / "keys")], check=True)

    @property
    def forms(self) -> list[bytes]:
        """The secrets in every form that somebody may carry them away in, backwards too."""
        plain = [form for canary in self.origin.canaries for form in forms(canary)]
        return [*plain, *(form[::-1] for form in plain), *self.origin.raw_canaries]

    def fetch(self, files: Mapping[str, str]) -> str:
        """Run the stage on a configuration; return its log."""
        self.origin.repository("configuration.git", files)
        assert self.pod.stage(Stage.FETCH) == 0
        return self.pod.log(Stage.FETCH)

    def leaks(self) -> list[str]:
        """Return the files of the pod and its volumes that hold a form of a secret."""
        leaking = []
        for folder, _, names in os.walk(self.pod.folder):
            for name in names:
                path = Path(folder, name)
                if path.is_file() and not path.is_symlink():
                    content = path.read_bytes()
                    content += _WRAPPING.sub(b"", content)
                    leaking += [str(path) for form in self.forms if form in content][:1]
        return leaking

    def has_module(self, text: str) -> bool:
        """Tell whether a downloaded module holds ``text``."""
        modules = (self.pod.folder / "volumes/work/data/modules").rglob("*.tf")
        return any(text in path.read_text() for path in modules)

    @contextmanager
    def caught(self, files: Mapping[str, str], somebody: Stranger) -> Iterator[int]:
        """Yield the PID of the stage's first process while ``get`` waits for ``somebody``; then let it end."""
        slow = f'module "slow" {{\n  source = "{somebody.url}/slow.zip"\n}}\n'
        whole = {**files, "main.tf": files.get("main.tf", "") + slow}
        running = threading.Thread(target=self.fetch, args=(whole,))
        running.start()
        try:
            until(lambda: somebody.waiting.is_set() or not running.is_alive())
            assert running.is_alive(), self.pod.log(Stage.FETCH)
            yield self._first_process()
        finally:
            somebody.release.set()
            running.join()

    def prowl(self, pid: int, *deeds: str, **known: object) -> dict[str, Any]:
        """Run ``prowler.py`` beside the process ``pid``, as its user in its namespaces; return what it prints."""
        self.plant_prowler()
        asked = self.asked(*deeds, variables=self.access(pid), **known)
        done = subprocess.run(
            self.inside(pid, "/workspace-data/prowler.py"),
            input=json.dumps(asked),
            env={"PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def plant_prowler(self) -> None:
        """Put ``prowler.py`` on the volume."""
        script = self.pod.volume / "prowler.py"
        script.write_bytes(Path(__file__).with_name("prowler.py").read_bytes())
        script.chmod(0o644)

    def asked(self, *deeds: str, **known: object) -> dict[str, object]:
        """Return the standard input of ``prowler.py``."""
        forms = {name: [form.hex() for form in listed] for name, listed in self.wanted.items()}
        return {"forms": forms, "deeds": deeds, **known}

    @property
    def wanted(self) -> Mapping[str, list[bytes]]:
        """The forms of each secret, by its name."""
        return {"login": self.forms}

    def inside(self, pid: int, *arguments: str) -> list[str]:
        """Return the command of a Python beside the process ``pid``, as its user in its namespaces."""
        into = ["nsenter", f"--target={pid}", "--mount", "--pid", "--ipc", "--root", "--wd"]
        return [*into, f"--setuid={_USER}", f"--setgid={_USER}", "/opt/magos/bin/python", *arguments]

    def access(self, pid: int) -> dict[str, str]:
        """Return the variables that the tool was given for its Git, as only root can read them."""
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        entries = [entry for child in children for entry in Path(f"/proc/{child}/environ").read_bytes().split(b"\0")]
        given = dict(entry.decode().split("=", 1) for entry in entries if entry.startswith(b"MAGOS_GIT_"))
        assert "MAGOS_GIT_RELAY" in given
        return given

    def _first_process(self) -> int:
        """Return the PID, as this machine counts, of PID 1 of the container, by the secret that it was given."""
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                command, environ = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
                inner = (entry / "status").read_text().partition("NSpid:")[2].splitlines()[0].split()
            except OSError:
                continue
            if b"magos.apps.job" in command and inner[-1] == "1" and self.origin.base.encode() in environ:
                return int(entry.name)
        raise AssertionError("the stage's first process was not found")
