"""The fixture of the command line's tests."""

from tests.unit.cli.shop import shop

__all__ = ["shop"]
