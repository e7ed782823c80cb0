"""The Secrets, ConfigMaps, claims and tokens that a pod refers to, read when a container needs them.

Nothing here keeps a value. A reference that cannot be resolved is a ``PodConfigError`` in the kubelet's own words, so
that what Magos shows about a pod reads the same here and on a real node.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from magos.api import kube
from magos.api.meta import Kind, Resource
from magos.errors import MagosError
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError

R = TypeVar("R", bound=Resource)

Request = Callable[[str, str, object], Awaitable[Any]]
"""Sends an administrator's request to the API server (method, path, body) and returns the decoded answer."""

_TOKEN_SECONDS = 3600
"""The lifetime of a projected token that names none, as on a real node."""


class PodConfigError(MagosError):
    """A reference of the pod cannot be resolved now; a later attempt may succeed."""


class PodSources:
    """Reads what the pods of one namespace refer to."""

    def __init__(self, client: ApiClient, request: Request, namespace: str) -> None:
        self._client = client
        self._request = request
        self._namespace = namespace

    async def secret(self, name: str, *, optional: bool) -> Mapping[str, bytes]:
        """Return the values of a Secret, none if it is optional and does not exist."""
        found = await self._find(kube.SECRETS, name, "secret", optional=optional)
        return {} if found is None else found.data

    async def config_map(self, name: str, *, optional: bool) -> Mapping[str, bytes]:
        """Return the values of a ConfigMap as bytes, none if it is optional and does not exist."""
        found = await self._find(kube.CONFIG_MAPS, name, "configmap", optional=optional)
        if found is None:
            return {}
        return {key: text.encode() for key, text in found.data.items()} | dict(found.binary_data)

    async def _find(self, kind: Kind[R], name: str, word: str, *, optional: bool) -> R | None:
        try:
            return await self._client.get(kind, self._namespace, name)
        except ApiError as error:
            if error.not_found and optional:
                return None
            raise PodConfigError(f'{word} "{name}" not found' if error.not_found else error.message) from error

    async def claim(self, name: str) -> kube.PersistentVolumeClaim:
        """Return a claim and mark it as bound: every claim is a folder of this machine."""
        try:
            found = await self._client.get(kube.PERSISTENT_VOLUME_CLAIMS, self._namespace, name)
            if found.status.phase != "Bound":
                status = {"phase": "Bound", "accessModes": found.spec.access_modes}
                await self._client.patch(
                    kube.PERSISTENT_VOLUME_CLAIMS, self._namespace, name, {"status": status}, subresource="status"
                )
        except ApiError as error:
            text = f'persistentvolumeclaim "{name}" not found' if error.not_found else error.message
            raise PodConfigError(text) from error
        if found.metadata.deletion_timestamp is not None:
            raise PodConfigError(f'persistentvolumeclaim "{name}" is being deleted')
        return found

    async def token(self, pod: kube.PodManifest, audience: str, seconds: int | None) -> bytes:
        """Return a token of the pod's ServiceAccount that becomes invalid with the pod."""
        account = pod.spec.service_account_name or "default"
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid}
        spec: dict[str, Any] = {"expirationSeconds": seconds or _TOKEN_SECONDS, "boundObjectRef": bound}
        if audience:
            spec["audiences"] = [audience]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token"
        try:
            answer = await self._request("POST", path, body)
        except MagosError as error:
            raise PodConfigError(f'no token for serviceaccount "{account}": {error}') from error
        return str(answer["status"]["token"]).encode()


async def environment(
    pod: kube.PodManifest, container: kube.Container, sources: PodSources, given: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of a container: ``given`` (the image's), then ``envFrom``, then ``env``, each in order."""
    result = dict(given)
    for entry in container.env_from:
        result.update(await _whole(entry, sources))
    for variable in container.env:
        value = await _value(pod, variable, sources, result)
        if value is not None:
            result[variable.name] = value
    return result


async def _whole(entry: kube.EnvFromSource, sources: PodSources) -> dict[str, str]:
    values: Mapping[str, bytes] = {}
    if entry.secret_ref is not None:
        values = await sources.secret(entry.secret_ref.name, optional=entry.secret_ref.optional)
    elif entry.config_map_ref is not None:
        values = await sources.config_map(entry.config_map_ref.name, optional=entry.config_map_ref.optional)
    return {entry.prefix + key: _text(key, value) for key, value in values.items()}


async def _value(
    pod: kube.PodManifest, variable: kube.EnvVar, sources: PodSources, known: Mapping[str, str]
) -> str | None:
    source = variable.value_from
    if source is None:
        return expand(variable.value or "", known)
    if source.secret_key_ref is not None:
        reference = source.secret_key_ref
        values = await sources.secret(reference.name, optional=reference.optional)
        return _key(reference, values, "Secret", pod.metadata.namespace)
    if source.config_map_key_ref is not None:
        reference = source.config_map_key_ref
        values = await sources.config_map(reference.name, optional=reference.optional)
        return _key(reference, values, "ConfigMap", pod.metadata.namespace)
    if source.field_ref is not None:
        return pod_field(pod, source.field_ref.field_path)
    raise PodConfigError(f"the pod runner does not support the source of variable {variable.name}")


def _key(reference: kube.KeySelector, values: Mapping[str, bytes], kind: str, namespace: str) -> str | None:
    if reference.key in values:
        return _text(reference.key, values[reference.key])
    if reference.optional:
        return None
    raise PodConfigError(f"couldn't find key {reference.key} in {kind} {namespace}/{reference.name}")


def _text(key: str, value: bytes) -> str:
    if b"\0" in value:
        raise PodConfigError(f"the value of key {key} has a NUL byte, which an environment variable cannot hold")
    return value.decode("utf-8", errors="surrogateescape")


def pod_field(pod: kube.PodManifest, path: str) -> str:
    """Return the field of the pod that the downward API calls ``path``."""
    fields = {
        "metadata.name": pod.metadata.name,
        "metadata.namespace": pod.metadata.namespace,
        "metadata.uid": pod.metadata.uid,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "spec.nodeName": pod.spec.node_name,
        "status.podIP": "127.0.0.1",
        "status.hostIP": "127.0.0.1",
    }
    if path not in fields:
        raise PodConfigError(f"the pod runner does not support fieldRef {path}")
    return fields[path]


def expand(text: str, known: Mapping[str, str]) -> str:
    """Expand ``$(NAME)`` by ``known``; ``$$(NAME)`` stands for itself without one ``$``, unknown names stay as written.

    Source: Kubernetes, "Define dependent environment variables".
    """
    result: list[str] = []
    position = 0
    while position < len(text):
        if text.startswith("$$", position):
            result.append("$")
            position += 2
            continue
        end = text.find(")", position) if text.startswith("$(", position) else -1
        if end < 0:
            result.append(text[position])
            position += 1
            continue
        name = text[position + 2 : end]
        result.append(known.get(name, text[position : end + 1]))
        position = end + 1
    return "".join(result)
