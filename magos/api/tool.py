"""Which tool a Workspace runs; the value is that of ``terraform.distribution``."""

from enum import StrEnum


class Distribution(StrEnum):
    """The tool to install."""

    TERRAFORM = "terraform"
    OPENTOFU = "opentofu"
