"""Repositories that mean harm: what a configuration can try inside its container, and the trace it leaves."""

import json
import shutil
from pathlib import Path

from magos.toolchain.releases import architecture
from tests.e2e.runner.pod import git
from tests.e2e.runner.provider import TIME_PROVIDER

__all__ = [
    "FORGED_RESULT",
    "FORGED_STATUS",
    "apply_files",
    "assailant_files",
    "provider_files",
    "push",
    "requires_time",
]

FORGED_REVISION = "f" * 40
FORGED_RESULT = json.dumps(
    {
        "v": 1,
        "runID": "20260101T000000-00000001",
        "phase": "apply",
        "result": "Succeeded",
        "exitCode": 0,
        "revision": FORGED_REVISION,
        "planDigest": "sha256:" + "0" * 64,
    }
)
FORGED_STATUS = json.dumps({"v": 1, "stage": "terraform", "revision": FORGED_REVISION})


def apply_files(backend: str, deed: str) -> dict[str, str]:
    """A module whose apply runs the shell script ``deed``, with the forged texts beside it."""
    main = backend + (
        'resource "terraform_data" "a" {\n  provisioner "local-exec" {\n    command = "sh ./deed.sh"\n  }\n}\n'
    )
    return {"main.tf": main, "deed.sh": deed, "result.json": FORGED_RESULT, "status.json": FORGED_STATUS}


def requires_time() -> str:
    """A resource of the ``time`` provider."""
    block = 'terraform {\n  required_providers {\n    time = { source = "hashicorp/time" }\n  }\n}\n'
    return block + 'resource "time_static" "here" {}\n'


def provider_files(root: Path, program: Path, deed: str) -> None:
    """Put a provider below ``root`` that the tools find without a registry and that runs ``deed`` before it serves."""
    _provide(root, program, f'#!/bin/sh\n( {deed}\n) </dev/null >/dev/null 2>&1\nexec "${{0%/*}}/real" "$@"\n')


def assailant_files(root: Path, program: Path) -> None:
    """Put ``assailant.py`` below ``root`` as such a provider."""
    _provide(root, program, "#!/usr/bin/env python3\n" + Path(__file__).with_name("assailant.py").read_text())


def _provide(root: Path, program: Path, wrapper: str) -> None:
    place = f"terraform.d/plugins/registry.opentofu.org/hashicorp/time/{TIME_PROVIDER.version}/linux_{architecture()}"
    folder = root / place
    folder.mkdir(parents=True)
    shutil.copy(program, folder / "real")
    provider = folder / f"{TIME_PROVIDER.name}_v{TIME_PROVIDER.version}"
    provider.write_text(wrapper)
    provider.chmod(0o755)


def push(work: Path, bare: Path) -> str:
    """Commit all of ``work`` and push it to the bare repository; return the commit."""
    if not bare.exists():
        bare.mkdir(parents=True)
        git(bare, "init", "-q", "--bare", "-b", "main")
    git(work, "init", "-q", "-b", "main")
    git(work, "add", "-A", "-f")
    git(work, "commit", "-q", "-m", "innocent")
    git(work, "push", "-q", str(bare), "main")
    return git(work, "rev-parse", "HEAD")
