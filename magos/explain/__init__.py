"""What a Workspace waits for, who holds it, since when, and what to do: one text for the command line and the UI.

Everything here is pure: it reads the objects that it is given and the time, and nothing else.
"""

from magos.explain.account import Account, Attention
from magos.explain.states import explain

__all__ = ["Account", "Attention", "explain"]
