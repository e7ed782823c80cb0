r"""The regular expressions of the admission rules, in the syntax that RE2 (CEL) and Python have in common.

The unit tests hold them against each other's examples in Python; the API server tests do so in CEL.
"""

UNFIT_FOR_URL = r"^-|[\x00-\x20\x7f-\xa0]"
"""A leading dash, a blank or a control character."""

GIT_REMOTE_HELPER = r"^[A-Za-z0-9][A-Za-z0-9+.-]*::"
"""``<helper>::<address>`` makes Git run a program of that name."""

_HOST = r"([^-/@:\[\]?#\\][^/@:\[\]?#\\]*|\[[0-9A-Fa-f:.]+\])"

REPO_URL = (
    rf"^(https?|git|ssh|git\+ssh)://([^/]*@)?{_HOST}(:[0-9]{{1,5}})?([/?#].*)?$"
    r"|^file://[^/]*/.*$"
    r"|^/.*$"
    rf"|^([^-/@:][^/@:]*@)?{_HOST}:([^/].*|/[^/].*)$"
)
"""A URL of a known scheme, an absolute path, or ``[user@]host:path`` (whose path never begins with ``//``)."""

CREDENTIALS_IN_URL = r"^(https?|git|file)://[^/]*@|^[a-z+]+://[^/]*:[^/]*@|^[^/:@]+:[^/@]*@[^/]*:"
"""Anything before an ``@`` in schemes whose user name may be a token; in the others ``user:password@``
in the authority of a URL or before an scp-like address."""

NOT_A_REF = r"^$|^-|^@$|^/|/$|//|(^|/)\.|\.\.|\.$|\.lock(/|$)|@\{|[\x00-\x20\x7f~^:?*\[\\]"
"""What ``git check-ref-format`` refuses, and a leading dash. A commit ID has the form of a ref name."""

NOT_RELATIVE = r"^/|(^|/)\.\.(/|$)|[\x00-\x1f\x7f]"
"""An absolute path, a ``..`` segment, or a control character."""

_PRE = r"(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
VERSION = rf"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-{_PRE}(\.{_PRE})*)?$"
"""A semantic version, without prefix and without build metadata."""

VARIABLE_NAME = r"^[a-zA-Z_][a-zA-Z0-9_]*$"
"""A Terraform variable."""

NOT_A_LABEL_VALUE = r"[^\w.-]|^[_.-]|[_.-]$"
"""Anything but letters, digits, ``_``, ``.`` and ``-``, or one of the latter at an end. Cost goes by length."""

_DNS = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
OBJECT_NAME = rf"^{_DNS}(\.{_DNS})*$"
"""A DNS subdomain, as most objects are named."""

LABEL_KEY = rf"^({_DNS}(\.{_DNS})*/)?[A-Za-z0-9]([\w.-]{{0,61}}[A-Za-z0-9])?$"
"""A label key; that its prefix has at most 253 characters is asked for separately."""
