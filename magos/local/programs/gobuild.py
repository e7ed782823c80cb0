"""Building a recipe's program from Go modules.

``go install package@version`` refuses a module whose go.mod has replace directives, since those count only in the
main module. So a main module is written that requires the wanted one and repeats its replacements; a replacement by
a folder beside the module (Kubernetes' staging) becomes the published module of the same content. Go verifies every
download against the checksum database. An interrupted build resumes from Go's own build cache. While one program
compiles, which the processor limits, the modules of the next ones are downloaded, which the network limits.
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

__all__ = ["BuildFailed", "GoMod", "Replacement", "build", "main_module"]

_TICK_SECONDS: Final = 1.0


class BuildFailed(MagosError):
    """Go could not fetch or compile the program; the text has the end of Go's output."""


class _Target(msgspec.Struct, frozen=True, rename="pascal"):
    path: str
    version: str = ""


class Replacement(msgspec.Struct, frozen=True, rename="pascal"):
    """A replace directive as ``go mod edit -json`` prints it."""

    old: _Target
    new: _Target


class GoMod(msgspec.Struct, frozen=True, rename="pascal"):
    """The parts of a go.mod that a main module has to repeat; field names are Go's."""

    go: str
    require: tuple[_Target, ...] | None = None
    replace: tuple[Replacement, ...] | None = None


def main_module(recipe: Recipe, mod: GoMod) -> str:
    """The go.mod of the module in which ``recipe`` is built, ``mod`` being the wanted module's own go.mod."""
    required = {needed.path for needed in mod.require or ()}
    lines = ["module magos.example/build", "", f"go {mod.go}", "", f"require {recipe.module} v{recipe.version}"]
    for entry in mod.replace or ():
        old, new = entry.old, entry.new
        if not new.path.startswith("."):
            lines.append(f"replace {old.path} {old.version} => {new.path} {new.version}".replace("  ", " "))
        elif recipe.local_modules:
            lines.append(f"replace {old.path} => {old.path} {recipe.local_modules}")
            # Without a requirement of its own the module would carry its placeholder version into the program.
            if old.path in required:
                lines.append(f"require {old.path} {recipe.local_modules}")
    return "\n".join(lines) + "\n"


def build(recipe: Recipe, go: Go, cache: Path, progress: Progress, ahead: Sequence[Recipe] = ()) -> None:
    """Build ``recipe`` into its place in ``cache``; the caller holds the entry's lock. Raises BuildFailed.

    ``ahead`` is what will be built after it: its modules are downloaded meanwhile, as far as that gets.
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
            # Not the folder of the build itself, which another process may be working in.
            folder = cache / "modules" / f"{recipe.key}.ahead"
            folder.mkdir(parents=True, exist_ok=True)
            try:
                (folder / "go.mod").write_text(main_module(recipe, _fetch_go_mod(recipe, go)))
            except BuildFailed:
                return  # its own build will say so
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
    command = [str(go.program), "mod", "download", "-json", f"{recipe.module}@v{recipe.version}"]
    answer = subprocess.run(command, env=dict(go.env), cwd="/", capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise _failure(recipe, "download", (answer.stdout + answer.stderr).splitlines())
    path = str(json.loads(answer.stdout)["GoMod"])
    command = [str(go.program), "mod", "edit", "-json", path]
    answer = subprocess.run(command, env=dict(go.env), cwd="/", capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise _failure(recipe, "read the go.mod of", answer.stderr.splitlines())
    return msgspec.json.decode(answer.stdout, type=GoMod)


def _compile(recipe: Recipe, go: Go, folder: Path, arguments: list[str], progress: Progress) -> None:
    output: deque[str] = deque(maxlen=25)
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
            process.terminate()  # Ctrl-C: the compiled packages stay in Go's cache
            raise
    if process.returncode != 0:
        raise _failure(recipe, "build", list(output))


def _failure(recipe: Recipe, step: str, output: list[str]) -> BuildFailed:
    shown = "\n".join(output[-12:])
    return BuildFailed(
        f"Go could not {step} {recipe.title} (module {recipe.module}); check that the Go module proxy is reachable "
        f"(GOPROXY), or set KUBEBUILDER_ASSETS to a folder with the programs. Go said:\n{shown}"
    )
