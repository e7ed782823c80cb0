"""Who reads environment variables: whoever starts a process, and nobody who is called by others."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
READERS = {
    "magos/apps/controllers.py",
    "magos/apps/server.py",
    "magos/cli/main.py",
    "magos/git/gitprograms.py",  # git starts it as a program of its own, and tells it what to do by variables
    "magos/runner/config.py",
}


def reads_environment(source: str) -> bool:
    names = {"environ", "environb", "getenv", "getenvb"}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in names:
            if isinstance(node.value, ast.Name) and node.value.id == "os":
                return True
        elif isinstance(node, ast.ImportFrom) and node.module == "os" and names & {each.name for each in node.names}:
            return True
    return False


def test_a_reader_of_the_environment_is_recognised_however_it_reads() -> None:
    for source in ("import os\nos.environ['A']", "import os\nos.getenv('A')", "from os import environ"):
        assert reads_environment(source)
    assert not reads_environment("def load(environ):\n    return environ['A']")


def test_only_those_who_start_a_process_read_the_environment() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "magos").rglob("*.py")
        if reads_environment(path.read_text("utf-8"))
    }
    assert found == READERS
