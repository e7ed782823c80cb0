"""The two programs that ``git`` starts during the module download. They hold no secret: exchanging them gains
nothing that they could not do themselves.

``ssh``: in the place of the OpenSSH client; hands its streams over to the stage, which fetches (``sshrelay``).
``remote``: a remote helper (gitremote-helpers(7)) for http(s) URLs; sends those of the repository's origin, however
they are spelled, to the stage (``fetchproxy``) and everything else where it says.

Only the standard library is imported, because git waits for it every time.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

HELPER = "magos"
"""The name of the remote helper: ``git`` looks for ``git-remote-magos``."""

RELAY = "MAGOS_GIT_RELAY"
PROXY = "MAGOS_GIT_PROXY"
ORIGIN = "MAGOS_GIT_ORIGIN"
BODY_LIMIT = 1024 * 1024
"""The largest request of git that is passed on; what it has to say for a fetch is far shorter."""

_PORTS = {"https": 443, "http": 80}


def remote_command(name: str, url: str, environ: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return the command of the real helper for ``url`` and what to add to its environment.

    Raises ``ValueError`` for a URL that is not an http(s) one.
    """
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    if scheme not in _PORTS or not parts.hostname:
        raise ValueError("only http and https URLs go this way")
    origin = f"{scheme} {parts.hostname.lower()} {parts.port or _PORTS[scheme]}"
    if environ.get(ORIGIN) != origin:
        return ["git", f"remote-{scheme}", name, url], {}
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    settings = ("http.proxy=", "http.followRedirects=false", f"http.postBuffer={BODY_LIMIT}")
    options = [word for setting in settings for word in ("-c", setting)]
    local = environ[PROXY] + path
    return ["git", *options, "remote-http", name, local], {"GIT_ALLOW_PROTOCOL": "http"}


def _remote(arguments: Sequence[str]) -> int:
    try:
        name, url = arguments
        command, extra = remote_command(name, url, os.environ)
        os.execvpe(command[0], command, {**os.environ, **extra})  # noqa: S606 - no shell is wanted
    except (ValueError, OSError) as error:
        sys.stderr.write(f"magos: {error}\n")
        return 128


def _ssh(arguments: Sequence[str]) -> int:
    import json
    import socket

    name, nonce = os.environ[RELAY].split()
    request = {"nonce": nonce, "arguments": list(arguments), "protocol": os.environ.get("GIT_PROTOCOL", "")}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stage:
        stage.connect(f"\0{name}")
        socket.send_fds(stage, [json.dumps(request).encode()], [0, 1, 2])
        for descriptor in range(2):  # or git would not see the end of what the client writes
            os.close(descriptor)
        answer = json.loads(stage.recv(64 * 1024) or '{"code": 255}')
    if answer.get("message"):
        sys.stderr.write(f"{answer['message']}\n")
    return int(answer["code"])


def main(arguments: Sequence[str]) -> int:
    """Run the program that the first argument names; return its exit code."""
    programs = {"remote": _remote, "ssh": _ssh}
    return programs[arguments[0]](arguments[1:])


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # standard output may have been closed already
