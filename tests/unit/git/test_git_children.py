"""The OpenSSH client runs where it can write no file and hold no more memory than it needs."""

import resource
import subprocess
import sys
from pathlib import Path

from magos.bounds import SSH_FILES, SSH_MEMORY
from magos.git.openssh import confined


def test_bound_ssh_files(tmp_path: Path) -> None:
    probe = (
        "import resource, sys; print(*resource.getrlimit(resource.RLIMIT_FSIZE))\n"
        "with open(sys.argv[1], 'w') as file: file.write('x')"
    )
    command = confined([sys.executable, "-c", probe, str(tmp_path / "x")])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [str(SSH_FILES.limit)] * 2
    assert done.returncode != 0
    assert (tmp_path / "x").stat().st_size == 0


def test_bound_ssh_memory() -> None:
    probe = "import resource, sys; print(*resource.getrlimit(resource.RLIMIT_DATA)); bytearray(int(sys.argv[1]))"

    def run(size: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            confined([sys.executable, "-c", probe, str(size)]), capture_output=True, text=True, check=False
        )

    assert run(SSH_MEMORY.limit // 2).returncode == 0
    beyond = run(SSH_MEMORY.limit)
    assert beyond.stdout.split() == [str(SSH_MEMORY.limit)] * 2
    assert "MemoryError" in beyond.stderr


def test_the_limits_are_those_of_the_child_alone() -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    subprocess.run(confined(["true"]), check=True)
    assert resource.getrlimit(resource.RLIMIT_FSIZE) == before


def test_arguments_reach_the_program_as_they_are() -> None:
    words = ["a b", "$(x)", "*", "", "'\"", "-x"]
    done = subprocess.run(confined(["printf", "%s\\n", *words]), capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == words
