"""Builds a recipe's program from Go modules.

``go install package@version`` refuses a module whose go.mod has replace directives, since those count only in the main
module. So this module writes a main module that requires the wanted one and repeats its replacements; a replacement by
a folder beside the module (Kubernetes' staging) becomes the published module of the same content. Go verifies every
download against the checksum database, and an interrupted build resumes from Go's own build cache. While one program
compiles, which keeps the processor busy, the modules of the next programs are downloaded, which keeps the network busy.
"""

import json
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from magos.errors import MagosError
from magos.local.processes import dying_with_parent
from magos.local.programs.cache import place_program
from magos.local.programs.golang import Go
from magos.local.programs.progress import Progress
from magos.local.programs.recipes import Recipe

_TICK_SECONDS: Final = 1.0
_KEPT_LINES: Final = 25
_SHOWN_LINES: Final = 12
"""How much of Go's output an error shows: compilers print a cause last, and a terminal has room for it."""


class BuildFailed(MagosError):
    """Go cannot download or compile the program; the text carries the end of Go's output."""


class _Target(msgspec.Struct, frozen=True, rename="pascal"):
    path: str
    version: str = ""


class Replacement(msgspec.Struct, frozen=True, rename="pascal"):
    """A replace directive as ``go mod edit -json`` prints it."""

    old: _Target
    new: _Target


class GoMod(msgspec.Struct, frozen=True, rename="pascal"):
    """The parts of a go.mod that a main module has to repeat, with Go's names."""

    go: str
    require: tuple[_Target, ...] | None = None
    replace: tuple[Replacement, ...] | None = None


def main_module(recipe: Recipe, mod: GoMod) -> str:
    """Return the go.mod of the module in which ``recipe`` is built; ``mod`` is the wanted module's own go.mod."""
    required = {needed.path for needed in mod.require or ()}
    lines = ["module magos.example/build", "", f"go {mod.go}", "", f"require {recipe.module} v{recipe.version}"]
    for entry in mod.replace or ():
        old, new = entry.old, entry.new
        if not new.path.startswith("."):
            lines.append(f"replace {old.path} {old.version} => {new.path} {new.version}".replace("  ", " "))
        elif recipe.local_modules:
            lines.append(f"replace {old.path} => {old.path} {recipe.local_modules}")
            # Without this requirement the program would contain the placeholder version of the module.
            if old.path in required:
                lines.append(f"require {old.path} {recipe.local_modules}")
    return "\n".join(lines) + "\n"


def build(recipe: Recipe, go: Go, cache: Path, progress: Progress, ahead: Sequence[Recipe] = ()) -> None:
    """Build ``recipe`` into its place in ``cache``; the caller holds the entry's lock. Raises ``BuildFailed``.

    ``ahead`` are the programs to build next: their modules are downloaded until this build ends.
    """
    began = time.monotonic()
    usual = f"about {recipe.usual_minutes:g} min on 2 cores if nothing is cached"
    progress.say(f"building {recipe.title} with Go {go.version} ({usual})")
    folder = cache / "modules" / recipe.key
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.mod").write_text(main_module(recipe, _fetch_go_mod(recipe, go)))
    stamps = " ".join(f"-X {symbol}={value}" for symbol, value in recipe.stamps)
    with _downloading(ahead, go, cache), place_program(cache, recipe.key, recipe.name) as target:
        command = ["build", "-v", "-mod=mod", "-trimpath", "-ldflags", f"-s -w {stamps}", "-o", str(target)]
        _compile(recipe, go, folder, [*command, recipe.package], progress)
    progress.say(f"built {recipe.title} in {time.monotonic() - began:.0f} s")


@contextmanager
def _downloading(recipes: Sequence[Recipe], go: Go, cache: Path) -> Iterator[None]:
    """Download the modules of ``recipes``, one after the other, while the block runs and no longer."""
    ended = threading.Event()
    running: list[subprocess.Popen[bytes]] = []

    def download() -> None:
        for recipe in recipes:
            # Another process may be building in the folder without ".ahead".
            folder = cache / "modules" / f"{recipe.key}.ahead"
            folder.mkdir(parents=True, exist_ok=True)
            try:
                (folder / "go.mod").write_text(main_module(recipe, _fetch_go_mod(recipe, go)))
            except BuildFailed:
                return  # its own build reports the error
            command = dying_with_parent([str(go.program), "list", "-deps", "-mod=mod", recipe.package], signal.SIGTERM)
            output = subprocess.DEVNULL
            running.append(subprocess.Popen(command, env=dict(go.env), cwd=folder, stdout=output, stderr=output))
            if ended.is_set():
                running[-1].terminate()
            running[-1].wait()
            if ended.is_set():
                return

    thread = threading.Thread(target=download, name="go list", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        for process in running:
            process.terminate()
        thread.join()


def _fetch_go_mod(recipe: Recipe, go: Go) -> GoMod:
    """Download the module and read its go.mod."""

    def run(step: str, *arguments: str) -> str:
        command = [str(go.program), "mod", *arguments]
        answer = subprocess.run(command, env=dict(go.env), cwd="/", capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise _failure(recipe, step, (answer.stdout + answer.stderr).splitlines())
        return answer.stdout

    downloaded = run("download", "download", "-json", f"{recipe.module}@v{recipe.version}")
    path = str(json.loads(downloaded)["GoMod"])
    return msgspec.json.decode(run("read the go.mod of", "edit", "-json", path), type=GoMod)


def _compile(recipe: Recipe, go: Go, folder: Path, arguments: list[str], progress: Progress) -> None:
    output: deque[str] = deque(maxlen=_KEPT_LINES)
    began = time.monotonic()
    packages = 0
    with subprocess.Popen(
        dying_with_parent([str(go.program), *arguments], signal.SIGTERM),
        env=dict(go.env),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:

        def read() -> None:
            nonlocal packages
            for line in process.stderr or ():
                output.append(line.rstrip())
                packages += not line.startswith("go: ")

        reader = threading.Thread(target=read, name=f"go build {recipe.name}", daemon=True)
        reader.start()
        try:
            while reader.is_alive():
                latest = output[-1] if output else "starting"
                progress.tick(
                    f"{recipe.title}: {time.monotonic() - began:.0f} s, {packages} packages compiled, now {latest}"
                )
                reader.join(_TICK_SECONDS)
        except BaseException:
            process.terminate()  # on Ctrl-C; Go's cache keeps the compiled packages
            raise
    if process.returncode != 0:
        raise _failure(recipe, "build", list(output))


def _failure(recipe: Recipe, step: str, output: list[str]) -> BuildFailed:
    shown = "\n".join(output[-_SHOWN_LINES:])
    return BuildFailed(
        f"Go could not {step} {recipe.title} (module {recipe.module}); check that the Go module proxy is reachable "
        f"(GOPROXY), or set KUBEBUILDER_ASSETS to a folder with the programs. The end of Go's output:\n{shown}"
    )
