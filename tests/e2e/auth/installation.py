"""``magos-api`` with its own ServiceAccount in front of a real API server, and the browsers that people use it with."""

import os
import re
import secrets
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
import yaml
from msgspec import Struct

from tests.e2e.auth.issuer import CLI, WEB, Issuer
from tests.envtest.cluster import Cluster, eventually

__all__ = ["API", "GROUP", "LOG", "PASSWORD", "RUN", "SYSTEM", "Browser", "Installation", "Team", "running_api"]

API = "/apis/magosproject.io/v1alpha1"
GROUP = "magosproject.io"
SYSTEM = "magos-system"
LOG = "api.log"
PASSWORD = secrets.token_urlsafe(12)
RUN = "20260101T000000-00000000"

_BIN = Path(sys.executable).parent


class Installation(Struct, frozen=True, kw_only=True):
    """What runs, and where."""

    cluster: Cluster
    issuer: Issuer
    url: str
    ca_file: Path
    log: Path

    def client(self, **options: Any) -> httpx.Client:
        """Return a client without cookies of its own that trusts the identity provider."""
        context = ssl.create_default_context(cafile=str(self.ca_file))
        return httpx.Client(base_url=self.url, verify=context, trust_env=False, timeout=60, **options)

    def ask(self, path: str, token: str, method: str = "GET", body: Any = None) -> httpx.Response:
        """Return the answer to a program with a bearer token."""
        with self.client(headers={"Authorization": f"Bearer {token}"}) as client:
            return client.request(method, path, json=body)


class Team:
    """A namespace with a Workspace ``app`` whose plan waits, and an account ``viewer`` for people of a group."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self.namespace = f"team-{secrets.token_hex(3)}"
        self.workspace = f"app-of-{self.namespace}"
        self._cluster = cluster
        cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        annotations = {"rbac.magosproject.io/claims": msgspec.json.encode({"groups": [group]}).decode()}
        self.allow("viewer", ["get", "list", "watch"], annotations)
        self._add_workspace()

    def allow(self, account: str, verbs: list[str], annotations: dict[str, str] | None = None) -> None:
        """Make a ServiceAccount that has rights on the Workspaces of this namespace."""
        meta = {"name": account, "namespace": self.namespace}
        rbac = "rbac.authorization.k8s.io"
        rules = [{"apiGroups": [GROUP], "resources": ["workspaces"], "verbs": verbs}]
        binding = {
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": account},
            "subjects": [{"kind": "ServiceAccount", **meta}],
        }
        documents = [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**meta, "annotations": annotations or {}}},
            {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": meta, "rules": rules},
            {"apiVersion": f"{rbac}/v1", "kind": "RoleBinding", "metadata": meta, **binding},
        ]
        self._cluster.kubectl.run("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))

    def revoke(self, account: str) -> None:
        """Take the rights away."""
        self._cluster.kubectl.run("delete", "rolebinding", account, f"--namespace={self.namespace}")

    def token(self, account: str) -> str:
        """Return a token of a ServiceAccount, by TokenRequest."""
        return self._cluster.kubectl.run("create", "token", account, f"--namespace={self.namespace}").strip()

    @property
    def path(self) -> str:
        """The Workspace in the API of Magos."""
        return f"{API}/workspaces/{self.namespace}/{self.workspace}"

    @property
    def stored(self) -> Any:
        """The Workspace as the cluster has it."""
        return self._cluster.request("GET", f"{API}/namespaces/{self.namespace}/workspaces/{self.workspace}")

    def _add_workspace(self) -> None:
        path = f"{API}/namespaces/{self.namespace}/workspaces"
        manifest = {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": "Workspace",
            "metadata": {"name": self.workspace},
            "spec": {
                "projectRef": {"name": "shop"},
                "source": {"repoURL": "https://git.example.com/demo.git", "targetRevision": "main"},
                "terraform": {"version": "1.9.8"},
            },
        }
        found = self._cluster.request("POST", path, manifest)
        waiting = {"runID": RUN, "reason": "ManualApproval", "since": "2026-01-01T00:00:00Z"}
        found["status"] = {"phase": "Planned", "currentRunID": RUN, "awaitingApproval": waiting}
        self._cluster.request("PUT", f"{path}/{self.workspace}/status", found)


class Browser:
    """Keeps cookies, follows redirects, and presses what a page offers."""

    def __init__(self, at: Installation) -> None:
        self.at = at
        self.http = at.client(follow_redirects=True, headers={"Accept": "text/html,*/*;q=0.8"})

    def get(self, path: str) -> httpx.Response:
        """Open a page."""
        return self.http.get(path)

    def begin(self, path: str = "/workspaces") -> httpx.Response:
        """Open a page without a session and follow the link to the identity provider; return its form."""
        page = self.get(path)
        assert page.url.path == "/login", page.url
        forwarding = self.http.get(_address(page, "start=oidc"))
        return self.http.get(_address(forwarding, "/authorize"))

    def enter(self, form: httpx.Response, person: str, **options: Any) -> httpx.Response:
        """Give the name that the form of the identity provider asks for; return where that leads to."""
        return self.http.post(form.url.join(_address(form, "/authorize?asked=")), data={"person": person}, **options)

    def log_in(self, person: str, path: str = "/workspaces") -> httpx.Response:
        """Log in by way of the identity provider; return the page that follows."""
        return self.enter(self.begin(path), person)

    def log_in_as_admin(self, password: str, **changed: str) -> httpx.Response:
        """Send the form of the login page."""
        page = self.get("/login?return=/workspaces")
        fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.text))
        return self.send("/login", {**fields, "password": password, **changed})

    def send(self, path: str, fields: dict[str, str]) -> httpx.Response:
        """Send a form as a page of ours does."""
        return self.http.post(path, data=fields, headers={"Origin": self.at.url})

    def press(self, path: str, body: Any = None) -> httpx.Response:
        """Send a request as a script of our pages does."""
        headers = {"Origin": self.at.url, "X-CSRF-Token": self.cookie("magos_csrf")}
        return self.http.post(path, json=body, headers=headers)

    def cookie(self, name: str) -> str:
        """Return the value of a cookie, empty if there is none."""
        return self.http.cookies.get(name) or ""

    @contextmanager
    def events(self, kind: str = "workspaces") -> Iterator[Iterator[tuple[str, Any]]]:
        """Yield the events of the stream of all that one may see."""
        with self.http.stream("GET", f"{API}/{kind}/events") as answer:
            assert answer.status_code == 200
            yield _events(answer)


def _events(answer: httpx.Response) -> Iterator[tuple[str, Any]]:
    name = "message"
    for line in answer.iter_lines():
        key, _, value = line.partition(": ")
        if key == "event":
            name = value
        elif key == "data":
            yield name, msgspec.json.decode(value)
            name = "message"


def _address(page: httpx.Response, part: str) -> str:
    """Return the one address on a page that has this part."""
    found = {unescape(each) for each in re.findall(r'(?:href|action)="([^"]*)"', page.text)}
    [address] = [each for each in found if part in each]
    return address


@contextmanager
def running_api(cluster: Cluster, folder: Path, url: str, environ: dict[str, str]) -> Iterator[None]:
    """Run ``magos-api`` as it is deployed around a block: with the rights of its own ServiceAccount and no others."""
    kubeconfig = cluster.service_account_kubeconfig(SYSTEM, "magos-api", folder / "api.kubeconfig")
    port = urlsplit(url).port
    known = {"KUBECONFIG": str(kubeconfig), "PORT": str(port), "MAGOS_BASE_URL": url, "POD_NAMESPACE": SYSTEM}
    clients = {"OIDC_CLIENT_ID": WEB, "OIDC_CLI_CLIENT_ID": CLI}
    with (folder / LOG).open("wb") as log:
        child = subprocess.Popen(
            [_BIN / "magos-api", "--address=127.0.0.1"],
            env={**os.environ, **known, **clients, **environ},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        eventually(lambda: child.poll() is not None or _is_ready(url))
        assert child.poll() is None, (folder / LOG).read_text()
        yield
    finally:
        child.terminate()
        try:
            child.wait(20)
        finally:
            child.kill()
            child.wait()


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
