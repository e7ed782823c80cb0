"""The version is said in two places; they agree."""

import tomllib
from pathlib import Path

from magos.version import VERSION


def test_the_source_and_the_package_have_one_version() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["version"] == VERSION
