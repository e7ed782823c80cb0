"""How much of what others send may be stored or held, channel by channel: the limits stand here and nowhere else.

Readers of a channel take its limit from here. ``ALL`` is the table of docs/design/bounds.md, and a test of the name
``test_bound_<name>`` shows what happens where more is sent.
"""

from enum import StrEnum

import msgspec

_KIB = 1024
_MIB = 1024**2


class Sender(StrEnum):
    """Who decides what comes through a channel."""

    REMOTE = "Git server"
    MIRROR = "download server"
    CONTENT = "repository content"
    POD = "runner pod"
    CLUSTER = "object in the cluster"


class Bound(msgspec.Struct, frozen=True):
    """One channel. ``limit`` counts ``unit``; ``beyond`` says what happens to more."""

    name: str
    sender: Sender
    channel: str
    limit: int
    unit: str
    beyond: str


GIT_TALK = Bound(
    "git_talk",
    Sender.REMOTE,
    "all that one conversation brings beside packs: references, progress, acknowledgements, what ssh writes to its"
    " standard error, HTTP headers, chunk headers, trailers, bodies of errors and redirects",
    32 * _MIB,
    "bytes",
    "GitFailed, the connection is closed",
)
GIT_LISTING = Bound(
    "git_listing",
    Sender.REMOTE,
    "what a listing keeps in memory: the references that were asked for, and what is no reference",
    256 * _KIB,
    "bytes",
    "GitFailed; references that were not asked for are counted and dropped as they arrive",
)
GIT_CONTENT = Bound(
    "git_content", Sender.REMOTE, "packs of a checkout with its submodules", 2048 * _MIB, "bytes", "GitFailed"
)
GIT_OBJECTS = Bound(
    "git_objects", Sender.REMOTE, "objects that these packs announce", 2_000_000, "objects", "GitFailed"
)
GIT_OBJECT = Bound(
    "git_object",
    Sender.REMOTE,
    "one object as a pack declares it, or a delta's base and result together",
    512 * _MIB,
    "bytes",
    "GitFailed before anything of it is inflated",
)
GIT_INFLATED = Bound(
    "git_inflated",
    Sender.REMOTE,
    "what all packs of a checkout declare to hold once they are inflated, deltas and their results included",
    4096 * _MIB,
    "bytes",
    "GitFailed before the object that is too much is inflated",
)
GIT_TAGS = Bound(
    "git_tags",
    Sender.REMOTE,
    "packs from which a poll learns what tags point to, broken off once that is known; inflated four times as much",
    32 * _MIB,
    "bytes",
    "GitFailed for targets that are tags",
)
GIT_TAGS_KNOWN = Bound(
    "git_tags_known",
    Sender.REMOTE,
    "tags of which RefWatcher remembers what they point to",
    10_000,
    "tags",
    "the least recently used are forgotten and asked for again",
)
SSH_HEAD = Bound(
    "ssh_head",
    Sender.REMOTE,
    "the beginning of what ssh writes to its standard error",
    16 * _KIB,
    "bytes",
    "counted and dropped",
)
SSH_TAIL = Bound(
    "ssh_tail",
    Sender.REMOTE,
    "the end of what ssh writes to its standard error",
    16 * _KIB,
    "bytes",
    "what came before is dropped",
)
SSH_FILES = Bound("ssh_files", Sender.REMOTE, "files that the ssh process writes", 0, "bytes", "the kernel ends ssh")
SSH_MEMORY = Bound("ssh_memory", Sender.REMOTE, "memory of the ssh process", 256 * _MIB, "bytes", "ssh ends itself")
HTTP_HEAD = Bound(
    "http_head",
    Sender.REMOTE,
    "status line and headers of one HTTP response, interim responses included",
    256 * _KIB,
    "bytes",
    "GitFailed or ToolDownloadFailed, the connection is closed",
)
HTTP_REDIRECTS = Bound(
    "http_redirects", Sender.REMOTE, "redirects that one request follows", 5, "redirects", "GitFailed"
)
NAME_LOOKUPS = Bound(
    "name_lookups",
    Sender.REMOTE,
    "look-ups of host names in flight; one that outlives its deadline is abandoned",
    64,
    "threads",
    "the connection fails with the reason",
)
ADDRESSES = Bound(
    "addresses", Sender.REMOTE, "addresses of a host name that are tried", 8, "addresses", "the others are not tried"
)
TOOL_TEXT = Bound(
    "tool_text",
    Sender.MIRROR,
    "a checksum file or a signature",
    4 * _MIB,
    "bytes",
    "ToolDownloadFailed",
)
TOOL_ARCHIVE = Bound(
    "tool_archive",
    Sender.MIRROR,
    "the archive of a tool, which goes to a file",
    512 * _MIB,
    "bytes",
    "ToolDownloadFailed",
)
TOOL_TALK = Bound(
    "tool_talk",
    Sender.MIRROR,
    "all that one download brings beside the file: headers, chunk headers, trailers, bodies of errors and redirects",
    4 * _MIB,
    "bytes",
    "ToolDownloadFailed, the connection is closed",
)
GITMODULES = Bound(
    "gitmodules", Sender.CONTENT, ".gitmodules, without following what it includes", 256 * _KIB, "bytes", "GitFailed"
)
SUBMODULES = Bound("submodules", Sender.CONTENT, "submodules of a checkout", 100, "submodules", "GitFailed")
GITATTRIBUTES = Bound(
    "gitattributes",
    Sender.CONTENT,
    "the beginning of a .gitattributes file that is searched for what is not applied",
    256 * _KIB,
    "bytes",
    "not searched",
)
LFS_POINTER = Bound(
    "lfs_pointer", Sender.CONTENT, "a file that may be a Git LFS pointer", _KIB, "bytes", "it is a file like others"
)
LINK_TARGET = Bound("link_target", Sender.CONTENT, "the target of a link", 4095, "bytes", "GitFailed")
TREE_OBJECT = Bound("tree_object", Sender.CONTENT, "one directory as Git stores it", 32 * _MIB, "bytes", "GitFailed")
COMMIT_OBJECT = Bound("commit_object", Sender.CONTENT, "the commit that is checked out", 4 * _MIB, "bytes", "GitFailed")
EXPORT_FILES = Bound(
    "export_files",
    Sender.CONTENT,
    "files and links of a checkout with its submodules, and as many directories",
    100_000,
    "files",
    "GitFailed",
)
EXPORT_CONTENT = Bound(
    "export_content", Sender.CONTENT, "content of the files of a checkout", 512 * _MIB, "bytes", "GitFailed"
)
EXPORT_DEPTH = Bound(
    "export_depth", Sender.CONTENT, "components of a path in a checkout", 64, "components", "GitFailed"
)
EXPORT_WARNINGS = Bound(
    "export_warnings", Sender.CONTENT, "warnings about a tree", 20, "warnings", "only their number is reported"
)
RUN_RESULT = Bound(
    "run_result",
    Sender.POD,
    "the termination message of container job",
    16 * _KIB,
    "characters",
    "the result counts as unreadable, the run fails",
)
STATUS_MESSAGE = Bound(
    "status_message",
    Sender.POD,
    "a message in status, whatever it quotes: a server, a pod's state, an Event, a policy",
    1024,
    "characters",
    "the end is cut off",
)
EVENT_NOTE = Bound(
    "event_note", Sender.POD, "the note of an Event that a controller writes", 1024, "bytes", "the end is cut off"
)
JOB_EVENTS = Bound(
    "job_events",
    Sender.CLUSTER,
    "Warning Events about a Job and its pod that explain why it does not start",
    50,
    "Events",
    "the oldest are dropped",
)
POLICY_TEXTS = Bound(
    "policy_texts",
    Sender.CLUSTER,
    "policies that a Workspace's selector selects",
    1 * _MIB,
    "bytes",
    "the run does not start, status says which policy is the largest",
)

ALL: tuple[Bound, ...] = tuple(value for value in dict(globals()).values() if isinstance(value, Bound))
