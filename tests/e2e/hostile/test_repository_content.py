"""A repository whose own files try to make the checkout read what is not theirs."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.e2e.git.servers import Repository

MIB = 1024**2
_CHECKOUT = textwrap.dedent(
    """
    import resource, sys
    from pathlib import Path
    from magos.git.checkout import CheckoutRequest, checkout
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[4]), int(sys.argv[4])))
    tree, private = Path(sys.argv[2]), Path(sys.argv[3])
    print(checkout(CheckoutRequest(sys.argv[1], "main", tree, private, allowed_schemes=("file",))).revision)
    """
)


@pytest.mark.parametrize("included", ["/dev/zero", "fifo"])
def test_gitmodules_that_include_a_device_or_a_pipe_neither_hang_nor_fill_the_checkout(
    included: str, tmp_path: Path
) -> None:
    if included == "fifo":
        included = str(tmp_path / "pipe")
        os.mkfifo(included)
    repository = Repository(tmp_path, "app.git", "main")
    sha = repository.commit({".gitmodules": f"[include]\n\tpath = {included}\n", "main.tf": ""})
    (tmp_path / "private").mkdir()
    arguments = [str(repository.bare), str(tmp_path / "tree"), str(tmp_path / "private"), str(512 * MIB)]
    done = subprocess.run(
        [sys.executable, "-c", _CHECKOUT, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.strip() == sha, done.stderr
