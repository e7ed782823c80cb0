"""Kubeconfig files: one or several, merged as kubectl does (the first mention of a name wins).

This is our own reader, because importing any part of ``kubernetes_asyncio`` imports its generated client (seconds of
start-up and tens of megabytes), which the controllers never use. Supported are tokens, token files, client certificates
and exec plugins; what the file asks for beyond that is refused by name, never ignored.
"""

import base64
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from magos.errors import ConfigurationError
from magos.runtime.client.credentials import (
    Anonymous,
    Credentials,
    ExecPlugin,
    ExecSpec,
    StaticToken,
    TokenFile,
)
from magos.runtime.client.tls import PemSource, TlsSource
from magos.runtime.clock import Clock


class _Cluster(Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: Any = None


class _Variable(Struct):
    name: str
    value: str


class _Exec(Struct, rename="camel"):
    command: str
    api_version: str = ""
    args: list[str] | None = None
    env: list[_Variable] | None = None
    install_hint: str | None = None
    provide_cluster_info: bool = False


class _User(Struct, rename="kebab"):
    token: str = ""
    token_file: str = field(default="", name="tokenFile")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec_: _Exec | None = field(default=None, name="exec")
    username: str = ""
    auth_provider: Any = None
    as_: str = field(default="", name="as")


class _Context(Struct):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(Struct):
    name: str
    cluster: _Cluster


class _NamedUser(Struct):
    name: str
    user: _User | None = None


class _NamedContext(Struct):
    name: str
    context: _Context


class _File(Struct, rename="kebab"):
    current_context: str | None = None
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


class ResolvedContext(Struct, frozen=True, kw_only=True):
    """One context of a kubeconfig, ready to connect with."""

    server: str
    tls: TlsSource
    credentials: Credentials
    namespace: str


class _Merged:
    """All files together; each entry keeps the directory that its relative paths start from."""

    def __init__(self) -> None:
        self.current = ""
        self.clusters: dict[str, tuple[_Cluster, Path]] = {}
        self.users: dict[str, tuple[_User, Path]] = {}
        self.contexts: dict[str, _Context] = {}

    def add(self, content: _File, directory: Path) -> None:
        self.current = self.current or content.current_context or ""
        for cluster in content.clusters or ():
            self.clusters.setdefault(cluster.name, (cluster.cluster, directory))
        for user in content.users or ():
            self.users.setdefault(user.name, (user.user or _User(), directory))
        for context in content.contexts or ():
            self.contexts.setdefault(context.name, context.context)


def read_kubeconfig(paths: Sequence[Path], context: str, environ: Mapping[str, str], clock: Clock) -> ResolvedContext:
    """Return the named context (the current one if empty). ``environ`` is what an exec plugin inherits. Does file I/O.

    Raises ``ConfigurationError`` naming the file and the entry that is missing, malformed or not supported.
    """
    merged = _Merged()
    for path in paths:
        merged.add(_parse(path), path.parent)
    where = ", ".join(str(path) for path in paths)
    name = context or merged.current
    if not name:
        raise ConfigurationError(f"the kubeconfig {where} has no current-context; choose one with --context")
    chosen = merged.contexts.get(name)
    if chosen is None:
        known = ", ".join(sorted(merged.contexts)) or "none"
        raise ConfigurationError(f"the kubeconfig {where} has no context {name!r}; it has: {known}")
    if chosen.cluster not in merged.clusters:
        raise ConfigurationError(f"context {name!r} of {where} names the cluster {chosen.cluster!r}, which is missing")
    cluster, cluster_directory = merged.clusters[chosen.cluster]
    if chosen.user and chosen.user not in merged.users:
        raise ConfigurationError(f"context {name!r} of {where} names the user {chosen.user!r}, which is missing")
    user, user_directory = merged.users.get(chosen.user, (_User(), cluster_directory))
    if not cluster.server:
        raise ConfigurationError(f"the cluster {chosen.cluster!r} of {where} has no server")
    _refuse(cluster, user, f"context {name!r} of {where}")
    return ResolvedContext(
        server=cluster.server,
        tls=TlsSource(
            authority=_source(cluster.certificate_authority_data, cluster.certificate_authority, cluster_directory),
            certificate=_source(user.client_certificate_data, user.client_certificate, user_directory),
            key=_source(user.client_key_data, user.client_key, user_directory),
            server_name=cluster.tls_server_name,
            verify=not cluster.insecure_skip_tls_verify,
        ),
        credentials=_credentials(user, user_directory, _Outside(cluster, cluster_directory, environ), clock),
        namespace=chosen.namespace or "default",
    )


def _parse(path: Path) -> _File:
    import yaml

    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"cannot read the kubeconfig {path}: {reason}; check the path") from error
    try:
        content = yaml.safe_load(text)
        return msgspec.convert({} if content is None else content, _File)
    except (yaml.YAMLError, msgspec.MsgspecError) as error:
        raise ConfigurationError(f"the file {path} is not a kubeconfig: {error}") from error


def _refuse(cluster: _Cluster, user: _User, where: str) -> None:
    unsupported = {
        "proxy-url": bool(cluster.proxy_url),
        "auth-provider": user.auth_provider is not None,
        "username and password": bool(user.username),
        "impersonation (as)": bool(user.as_),
    }
    for what, used in unsupported.items():
        if used:
            raise ConfigurationError(
                f"{where} uses {what}, which Magos does not support; "
                "use a token, a client certificate or an exec plugin"
            )


class _Outside(Struct):
    """What an exec plugin may get besides its own section."""

    cluster: _Cluster
    directory: Path
    environ: Mapping[str, str]

    def info(self) -> dict[str, Any]:
        """Return the ``spec.cluster`` of an ExecCredential."""
        authority = self.cluster.certificate_authority_data
        if not authority and self.cluster.certificate_authority:
            content = (self.directory / self.cluster.certificate_authority).read_bytes()
            authority = base64.b64encode(content).decode()
        config = None
        for extension in self.cluster.extensions or ():
            if extension.get("name") == "client.authentication.k8s.io/exec":
                config = extension.get("extension")
        return {
            "server": self.cluster.server,
            "tls-server-name": self.cluster.tls_server_name,
            "insecure-skip-tls-verify": self.cluster.insecure_skip_tls_verify,
            "certificate-authority-data": authority,
            "config": config,
        }


def _credentials(user: _User, directory: Path, outside: _Outside, clock: Clock) -> Credentials:
    if user.token:
        return StaticToken(user.token)
    if user.token_file:
        return TokenFile(directory / user.token_file, clock)
    if user.exec_ is None:
        return Anonymous()
    plugin = user.exec_
    environ = {**outside.environ, **{variable.name: variable.value for variable in plugin.env or ()}}
    found = shutil.which(plugin.command, path=environ.get("PATH"))
    command = str(directory / plugin.command) if "/" in plugin.command else found or plugin.command
    return ExecPlugin(
        ExecSpec(
            api_version=plugin.api_version,
            command=command,
            args=tuple(plugin.args or ()),
            environ=environ,
            install_hint=(plugin.install_hint or "").strip(),
            cluster=outside.info() if plugin.provide_cluster_info else None,
        ),
        clock,
    )


def _source(data: str, path: str, directory: Path) -> PemSource:
    if data:
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except ValueError as error:
            raise ConfigurationError(f"a *-data field of the kubeconfig is not base64: {error}") from error
    return directory / path if path else None
