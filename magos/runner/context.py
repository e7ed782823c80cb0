"""What every stage is handed: where things lie, its log, and the one way to run a tool."""

import msgspec

from magos.runner.journal import Journal
from magos.runner.paths import Paths
from magos.runner.process import Supervisor


class Context(msgspec.Struct, frozen=True):
    """The surroundings of one stage in one container."""

    paths: Paths
    journal: Journal
    supervisor: Supervisor
