"""The errors Magos raises on purpose.

Every message names the object, the cause and the next step (spec §14); a subclass says who has to act.
"""


class MagosError(Exception):
    """Base of every error raised on purpose; its text is fit to be shown to a user."""


class ConfigurationError(MagosError):
    """A flag, an environment variable or a configuration file is wrong; the process ends with exit code 2."""


class InvariantViolation(MagosError):
    """A state that the tables declare impossible was met: a bug of Magos, never of its user."""
