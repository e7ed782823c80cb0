"""Git access for the module download (``get``): the repository's own origin and nobody else.

Terraform calls the ``git`` binary for ``git::`` module sources. It gets no global configuration and no prompt; a
credential helper that answers for the origin of the repository only; and an SSH command that offers the key to the
repository's host and port only. Every host key is checked, everywhere.
"""

import shlex
import ssl
from pathlib import Path

import msgspec

from magos.git.credentials import Credentials
from magos.git.known_hosts import trusted_lines
from magos.git.ssh import SSHFiles, repair_key, ssh_arguments, write_private
from magos.git.url import RepoURL, Scheme

__all__ = ["git_environment"]

_HELPER = """\
# Answers git-credential(1) requests for one origin; anything else gets no answer.
test "$1" = get || exit 0
protocol= host=
while IFS='=' read -r key value; do
    case $key in
        protocol) protocol=$value ;;
        host) host=$value ;;
    esac
done
test "$protocol" = {protocol} || exit 0
case $host in
    {host} | {host}:{port}) cat {answer} ;;
esac
"""

_SSH = """\
# Offers the key to one host and port; any other server gets no key. Host keys are checked everywhere.
port=22 host= before=
for argument in "$@"; do
    case $before in
        -p) port=$argument; before=; continue ;;
        -o) before=; continue ;;
    esac
    case $argument in
        -p | -o) before=$argument ;;
        -*) ;;
        *) host=${{argument#*@}}; break ;;
    esac
done
if test "$host" = {host} && test "$port" = {port}; then
    exec {with_key} "$@"
fi
exec {without_key} "$@"
"""


def git_environment(
    url: RepoURL, credentials: Credentials, allowed_schemes: tuple[str, ...], directory: Path
) -> dict[str, str]:
    """Return the variables for a ``git`` that may reach ``url``'s origin with ``credentials``.

    The files they name are created 0600 in ``directory``, which must be private, empty, outside clone and volume, and
    outlive the command; removing it ends the access. Raises ``GitError`` if the credentials cannot be used.
    """
    settings = [("credential.helper", "")]  # an empty value forgets every helper named before
    login = credentials.basic_auth()
    if login and url.scheme in {Scheme.HTTPS, Scheme.HTTP}:
        helper = _write_helper(url, login, directory)
        settings.append((f"credential.{url.origin}.helper", f"!sh {shlex.quote(str(helper))}"))
    if credentials.ca_bundle and url.scheme is Scheme.HTTPS:
        bundle = write_private(directory / "ca.pem", _system_authorities() + credentials.ca_bundle + "\n")
        settings.append((f"http.{url.origin}/.sslCAInfo", str(bundle)))
    environment = {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ALLOW_PROTOCOL": ":".join(allowed_schemes),
        "GIT_SSH_COMMAND": f"sh {shlex.quote(str(_write_ssh(url, credentials, directory)))}",
        "GIT_SSH_VARIANT": "ssh",
        "GIT_CONFIG_COUNT": str(len(settings)),
    }
    for index, (key, value) in enumerate(settings):
        environment[f"GIT_CONFIG_KEY_{index}"] = key
        environment[f"GIT_CONFIG_VALUE_{index}"] = value
    return environment


def _write_helper(url: RepoURL, login: tuple[str, str], directory: Path) -> Path:
    username, password = login
    answer = write_private(directory / "login", f"username={username}\npassword={password}\n")
    # git names the port if the URL does; a default port may be written or not, another one must be
    origin = url.origin
    bare = f"[{origin.host}]" if ":" in origin.host else origin.host
    default = str(origin) == f"{origin.scheme}://{bare}"
    script = _HELPER.format(
        protocol=shlex.quote(url.scheme.value),
        host=shlex.quote(bare if default else f"{bare}:{origin.port}"),
        port=origin.port,
        answer=shlex.quote(str(answer)),
    )
    return write_private(directory / "credential-helper", script)


def _write_ssh(url: RepoURL, credentials: Credentials, directory: Path) -> Path:
    known_hosts = write_private(directory / "known_hosts", trusted_lines(credentials.known_hosts))
    public = SSHFiles(known_hosts, None)
    own = public
    if credentials.ssh_private_key and url.scheme is Scheme.SSH:
        key = write_private(directory / "key", repair_key(credentials.ssh_private_key))
        own = msgspec.structs.replace(public, key=key)
    check = not (credentials.insecure_ignore_host_key and url.scheme is Scheme.SSH)
    script = _SSH.format(
        host=shlex.quote(url.host if url.scheme is Scheme.SSH else ""),
        port=url.origin.port,
        with_key=shlex.join(ssh_arguments(own, check_host_key=check)),
        without_key=shlex.join(ssh_arguments(public)),
    )
    return write_private(directory / "ssh", script)


def _system_authorities() -> str:
    """Return the system's certificates: ``http.sslCAInfo`` replaces them, and the bundle is meant to add to them."""
    paths = ssl.get_default_verify_paths()
    for name in (paths.cafile, paths.openssl_cafile, "/etc/ssl/certs/ca-certificates.crt"):
        if name and Path(name).is_file():
            return Path(name).read_text(errors="replace").rstrip("\n") + "\n"
    return ""
