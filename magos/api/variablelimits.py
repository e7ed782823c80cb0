"""How large a Terraform input may be: it travels as an environment variable ``TF_VAR_<name>``.

Linux refuses to start a process with an environment string of more than 128 KiB, its name and closing NUL included, or
with an environment that fills a quarter of the stack (2 MiB by default). A set may fill half of that, so that the rest
of the environment has room. Source: execve(2).
"""

PREFIX = "TF_VAR_"

ENTRY_BYTES = 128 * 1024
"""Bytes of one environment string, closing NUL included."""

TOTAL_BYTES = 1024 * 1024
"""Bytes of all variables of a set together."""


def entry_size(name: str, value_bytes: int) -> int:
    """Return the bytes that a variable takes in the environment: prefix, name, ``=``, value, NUL."""
    return len(PREFIX) + len(name.encode()) + value_bytes + 2
