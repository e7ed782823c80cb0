"""Git access for the module download (``get``): it may use the repository's credentials and never holds them.

Terraform calls the ``git`` binary for ``git::`` module sources. It gets no global configuration and no prompt. What it
asks of the repository's origin passes through this process, which adds the login: over HTTP through ``fetchproxy``,
over SSH through ``sshrelay``. Both only fetch. Everything else goes without any login. Every host key and every
certificate is checked, everywhere.

So nothing that the configuration can reach is a secret: no file, no variable, no argument. The login is in this
process, which other processes of its user cannot look into (``magos.runner.shield``).
"""

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from magos.git import gitprograms
from magos.git.credentials import Credentials
from magos.git.fetchproxy import fetch_proxy
from magos.git.gitprograms import HELPER, ORIGIN, PROXY, RELAY
from magos.git.sshrelay import ssh_relay
from magos.git.url import RepoURL, Scheme
from magos.outbound.peers import Peers

_WEB = {Scheme.HTTPS, Scheme.HTTP}


@contextmanager
def git_access(
    url: RepoURL,
    credentials: Credentials,
    allowed_schemes: tuple[str, ...],
    directory: Path,
    *,
    search_path: str,
    peers: Peers,
) -> Iterator[Mapping[str, str]]:
    """Yield the variables for a ``git`` that may fetch from ``url``'s origin with ``credentials``.

    The access ends with the block: no port, no socket and no process is left. ``directory`` must be private, empty and
    outside clone and volume; nothing secret goes there. ``search_path`` is the ``PATH`` of the command. Of what passes
    through this process ``peers`` says where it may go. Raises
    ``GitError`` if the credentials cannot be used.
    """
    settings = [("credential.helper", "")]  # an empty value forgets every helper named before
    environment = {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_SSH_COMMAND": _program("ssh"),
        "GIT_SSH_VARIANT": "ssh",
    }
    schemes = list(allowed_schemes)
    with ExitStack() as stack:
        environment[RELAY] = stack.enter_context(ssh_relay(url, credentials, directory, peers))
        if url.scheme in _WEB and url.scheme in allowed_schemes and _needs_help(url, credentials):
            environment[PROXY] = stack.enter_context(fetch_proxy(url, credentials, peers))
            origin = url.origin
            environment[ORIGIN] = f"{origin.scheme} {origin.host} {origin.port}"
            environment["PATH"] = f"{_install_helper(directory)}{os.pathsep}{search_path}"
            # Users write the origin in many ways, so our helper looks at every URL of the scheme.
            settings.append((f"url.{HELPER}::{url.scheme}://.insteadOf", f"{url.scheme}://"))
            schemes.append(HELPER)
        environment["GIT_ALLOW_PROTOCOL"] = ":".join(schemes)
        environment["GIT_CONFIG_COUNT"] = str(len(settings))
        for index, (key, value) in enumerate(settings):
            environment[f"GIT_CONFIG_KEY_{index}"] = key
            environment[f"GIT_CONFIG_VALUE_{index}"] = value
        yield environment


def _needs_help(url: RepoURL, credentials: Credentials) -> bool:
    return credentials.basic_auth() is not None or bool(credentials.ca_bundle and url.scheme is Scheme.HTTPS)


def _program(name: str) -> str:
    # Isolated: neither the environment nor the current directory, the module's, has a say in what is imported.
    return shlex.join([sys.executable, "-IS", gitprograms.__file__, name])


def _install_helper(directory: Path) -> Path:
    """Put the remote helper where ``git`` finds it by its name; return the folder."""
    programs = directory / "programs"
    programs.mkdir(mode=0o700)
    helper = programs / f"git-remote-{HELPER}"
    helper.write_text(f'#!/bin/sh\nexec {_program("remote")} "$@"\n')
    helper.chmod(0o700)
    return programs
