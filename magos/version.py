"""The version of this source tree: the one in ``pyproject.toml``, without the cost of asking the installed package."""

VERSION = "0.1.0"
