"""Unique secrets through every input, and a search for them in everything that people and other programs can read.

A secret is looked for as it is, in base64 at each of the three alignments, URL-encoded and escaped as in JSON, each
line of a text of several lines for itself, and once more with all line breaks taken out of what is searched.
"""

import base64
import json
import re
import secrets as random_secrets
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import yaml
from msgspec import Struct

from magos.api.phases import TERMINAL, Phase
from magos.local.ports import free_ports
from magos.local.servers.gitserver import git_server
from magos.local.servers.loopback import StaticServer, serving
from tests.e2e.git.servers import ssh_server
from tests.e2e.onemachine import OneMachine
from tests.e2e.runner.hostile import push
from tests.e2e.runner.pod import until
from tests.e2e.runner.statebackend import StateServer, state_server
from tests.e2e.surfaces import own_secrets, surfaces

__all__ = ["Story", "Trace", "echoing_server", "forms", "story", "traces"]

_SHORTEST = 12
_PLAIN_INPUTS = ("password", "backend", "token", "variable", "hidden", "part", "tfvars", "echoed")
_BREAKS = re.compile(rb"\s+|\\[nrt]|\xe2\x94\x82|\[magos-job\]|\S+ \((?:local|remote)-exec\): ")

_MAIN = """
variable "from_file" {
  sensitive = true
}
variable "from_secret" {}
variable "several_lines" {}
variable "structured" {
  type = object({ user = string, login = list(string) })
}
variable "hidden" {
  sensitive = true
}
variable "dsn" {}
variable "account" {}
locals {
  generated = sha256("@SALT@")
}
resource "terraform_data" "shown" {
  input = [var.from_secret, base64encode(var.from_secret), urlencode(var.from_secret), jsonencode(var.several_lines)]
}
resource "terraform_data" "structured" {
  input = var.structured
}
resource "terraform_data" "account" {
  input = jsondecode(var.account)
}
resource "terraform_data" "hidden" {
  input = [var.from_file, var.hidden, sensitive(local.generated)]
}
resource "terraform_data" "talkative" {
  provisioner "local-exec" {
    command = <<-EOT
      printenv FIRST; printenv SECOND; printenv FIRST | base64; printenv SECOND | base64 -w 0; printenv LAST
      printenv DSN | fold -s -w 40; printenv DSN | tr ' ' '\n'
      cat /var/run/secrets/kubernetes.io/serviceaccount/token 2>/dev/null || true
      printenv TF_HTTP_PASSWORD; printenv CLOUD_TOKEN; printenv CLOUD_TOKEN | base64
    EOT
    environment = {
      DSN    = var.dsn
      FIRST  = var.from_secret
      SECOND = var.several_lines
      LAST   = urlencode(var.from_secret)
    }
  }
}
output "hidden" {
  value     = [var.hidden, var.from_file, local.generated]
  sensitive = true
}
"""
_FAILING = """
resource "terraform_data" "failing" {
  input = [tonumber(var.hidden), tonumber(var.from_secret), tonumber(var.from_file)]
  lifecycle {
    precondition {
      condition     = length(var.from_secret) == 0
      error_message = "not acceptable: ${var.from_secret} and ${var.several_lines}"
    }
    precondition {
      condition     = length(var.dsn) == 0
      error_message = "cannot connect with the given settings, which are ${var.dsn}, nor with ${jsonencode(var.dsn)}"
    }
  }
}
"""


class Trace(Struct, frozen=True):
    """A secret that was found: which one, in which form, where."""

    secret: str
    form: str
    place: str


class Story(Struct, frozen=True, kw_only=True):
    """What was put in, and what can be read afterwards, by the name of the place.

    ``source`` is where the secrets belong: the Secrets themselves and the states. It shows that they did go in, and
    that the search finds them.
    """

    secrets: Mapping[str, str]
    places: Mapping[str, bytes]
    source: bytes = b""


def _unique(name: str) -> str:
    """A value of which every encoding looks different."""
    return f'{name}/{random_secrets.token_hex(12)}+"&=~ü'


def forms(value: str) -> dict[bytes, str]:
    """Return every form of ``value`` to look for, with its name."""
    found: dict[bytes, str] = {}
    for text in {value, *value.splitlines()}:
        if len(text) < _SHORTEST or text.startswith("-----"):
            continue
        raw = text.encode()
        found |= {json.dumps(text)[1:-1].encode(): "JSON"}
        found |= {json.dumps(text, ensure_ascii=False)[1:-1].encode(): "JSON"}
        found |= {json.dumps(text, ensure_ascii=False)[1:-1].replace("&", "\\u0026").encode(): "Go's JSON"}
        found |= {quote(raw, safe="").encode(): "URL", quote(raw).encode(): "URL", quote_plus(raw).encode(): "URL"}
        for offset in range(3):
            # Without the groups at both ends that depend on what surrounds the value.
            encoded = base64.b64encode(b"x" * offset + raw)[4 if offset else 0 : -4]
            found |= {encoded: "base64", encoded.translate(bytes.maketrans(b"+/", b"-_")): "base64"}
        found[raw] = "plain"
    return {form: name for form, name in found.items() if len(form) >= _SHORTEST}


def traces(story: Story) -> list[Trace]:
    """Return where any of the secrets can be read."""
    found: set[Trace] = set()
    wanted = {name: forms(value) for name, value in story.secrets.items()}
    for place, content in story.places.items():
        joined = _BREAKS.sub(b"", content)
        for name, secret in wanted.items():
            for form, kind in secret.items():
                if form in content or _BREAKS.sub(b"", form) in joined:
                    found.add(Trace(name, kind, place))
    return sorted(found, key=lambda trace: (trace.secret, trace.place, trace.form))


def _secret(namespace: str, name: str, labels: Mapping[str, str] | None = None, **values: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values}


def _variables(namespace: str) -> dict[str, Any]:
    variables = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": "inputs", "key": name}}}
        for name in ("from_secret", "several_lines", "hidden", "structured", "dsn", "account")
    ]
    return {
        "apiVersion": "magosproject.io/v1alpha1",
        "kind": "VariableSet",
        "metadata": {"name": "inputs", "namespace": namespace},
        "spec": {"variables": variables},
    }


def _repository(here: OneMachine, states: Mapping[str, StateServer], values: Mapping[str, str]) -> Path:
    folder = here.here.folder / "canary"
    work = folder / "work"
    main = _MAIN.replace("@SALT@", random_secrets.token_hex(8))
    for name, state in states.items():
        (work / name).mkdir(parents=True)
        text = state.backend + main + (_FAILING if name == "failing" else "")
        (work / name / "main.tf").write_text(text)
    (work / "prod.tfvars").write_text(f"from_file = {json.dumps(values['tfvars'], ensure_ascii=False)}\n")
    push(work, folder / "served" / "canary.git")
    return folder / "served" / "canary.git"


@contextmanager
def _extra_environment(here: OneMachine) -> Iterator[None]:
    """Give the runner pods the backend's login and a token from Secrets, as an installation does."""
    config = here.here.folder / "pod-config.yaml"
    before = config.read_text()
    login = {"name": "TF_HTTP_USERNAME", "value": "magos"}
    reference = {"name": "cloud", "key": "token", "optional": True}
    changed = yaml.safe_load(before) | {
        "env": [login, {"name": "CLOUD_TOKEN", "valueFrom": {"secretKeyRef": reference}}],
        "envFrom": [{"secretRef": {"name": "backend-login", "optional": True}}],
    }
    try:
        config.write_text(yaml.safe_dump(changed))
        here.kill("workspace")
        yield
    finally:
        config.write_text(before)
        here.kill("workspace")


@contextmanager
def _watching_replica(here: OneMachine) -> Iterator[int]:
    """A second replica of the workspace controller that serves its metrics; yields their port."""
    [metrics, health] = free_ports(2)
    environ = here.here.controllers["workspace"].spec.env  # whichever of the two leads does the same
    flags = [f"--metrics-bind-address=127.0.0.1:{metrics}", "--metrics-secure=false", "--leader-elect"]
    program = str(Path(sys.executable).parent / "magos-workspace-controller")
    with (here.here.folder / "logs" / "canary-replica.log").open("wb") as log:
        process = subprocess.Popen(
            [program, *flags, f"--health-probe-bind-address=127.0.0.1:{health}"], env=environ, stdout=log, stderr=log
        )
    try:
        until(lambda: _listens(metrics))
        yield metrics
    finally:
        process.terminate()
        process.wait(30)


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def _everything(here: OneMachine, metrics_port: int) -> dict[str, bytes]:
    """Return all that can be read: API objects, logs, termination messages, metrics, by place."""
    kubectl, folder = here.here.kubectl, here.here.folder
    places: dict[str, bytes] = {}
    kinds = kubectl.run("api-resources", "--verbs=list", "-o", "name").split()
    readable = ",".join(kind for kind in kinds if kind != "secrets")
    answer = kubectl.completed(["get", readable, "-A", "-o", "json", "--show-managed-fields"], seconds=120)
    places["API server"] = answer.stdout.encode()
    for file in folder.rglob("*"):
        inside = file.relative_to(folder)
        logs = {"logs", "termination"} & set(inside.parts[:-1]) or file.suffix == ".log"
        if logs and "claims" not in inside.parts and file.is_file():
            places[str(inside)] = file.read_bytes()
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=10) as metrics:
        places["metrics"] = metrics.read()
    return places


def _documents(
    here: OneMachine, namespace: str, urls: tuple[str, str], values: Mapping[str, str], key: str, host_key: str
) -> list[dict[str, Any]]:
    http, ssh = urls
    label = {"magosproject.io/secret-type": "repository"}
    common: dict[str, Any] = {
        "variableSetRef": [{"name": "inputs"}],
        "terraform": {**here.workspace_document(namespace, "x")["spec"]["terraform"], "tfvarsPath": "prod.tfvars"},
    }
    return [
        _secret(namespace, "login", label, repoURL=http, username="robot", password=values["password"]),
        _secret(namespace, "key", label, repoURL=ssh, sshPrivateKey=key, known_hosts=host_key),
        _secret(namespace, "backend-login", TF_HTTP_PASSWORD=values["backend"]),
        _secret(namespace, "cloud", token=values["token"]),
        _secret(
            namespace,
            "inputs",
            from_secret=values["variable"],
            several_lines=values["lines"],
            hidden=values["hidden"],
            structured=json.dumps({"user": "someone", "login": [values["part"]]}),
            dsn=values["dsn"],
            account=json.dumps({"type": "service_account", "private_key": values["member"]}),
        ),
        _variables(namespace),
        here.workspace_document(namespace, "fine", source={"repoURL": http, "path": "fine"}, **common),
        here.workspace_document(namespace, "failing", source={"repoURL": http, "path": "failing"}, **common),
        here.workspace_document(namespace, "keyed", source={"repoURL": ssh, "path": "keyed"}, **common),
        here.workspace_document(namespace, "nowhere", source={"repoURL": http, "targetRevision": "gone"}, **common),
    ]


def _echoed(here: OneMachine, namespace: str, url: str, password: str) -> list[dict[str, Any]]:
    """A repository on a server that repeats what it was sent."""
    label = {"magosproject.io/secret-type": "repository"}
    return [
        _secret(namespace, "echoed", label, repoURL=url, username="user", password=password),
        here.workspace_document(namespace, "echoed", source={"repoURL": url}),
    ]


@contextmanager
def echoing_server() -> Iterator[str]:
    """A server that answers as Git servers refuse, with the login it was sent, in several forms; yields a clone URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            basic = (self.headers["Authorization"] or "Basic ").partition(" ")[2]
            login = base64.b64decode(basic).decode()
            broken = "\n ".join(basic[at : at + 12] for at in range(0, len(basic), 12))
            said = f"ERR not you: {login} {quote(login, safe='')} {basic}, again {broken}".encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
            self.end_headers()
            self.wfile.write(b"001e# service=git-upload-pack\n0000" + f"{len(said) + 4:04x}".encode() + said)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Keep quiet."""

    server = StaticServer(("127.0.0.1", 0), Handler)
    with serving(server, "echo"):
        yield f"http://127.0.0.1:{server.server_port}/echo.git"


def story(here: OneMachine) -> Story:
    """Let Workspaces succeed and fail with secrets in every input; return what was put in and what can be read.

    ``here`` has API server, database and bucket.
    """
    values = {name: _unique(name) for name in _PLAIN_INPUTS}
    values["member"] = _unique("member")
    values["dsn"] = " ".join(
        f"{word}={random_secrets.token_hex(10)}" for word in ("host", "user", "password", "options")
    )
    values["lines"] = "\n".join(_unique(f"line-{number}") for number in range(3)) + "\n"
    namespace = here.namespace()
    with ExitStack() as stack:
        names = ("fine", "failing", "keyed")
        states = {name: stack.enter_context(state_server()) for name in names}
        bare = _repository(here, states, values)
        served = stack.enter_context(git_server(bare.parent, login=("robot", values["password"])))
        echo = stack.enter_context(echoing_server())
        ssh_folder = here.here.folder / "canary" / "sshd"
        ssh_folder.mkdir()
        ssh = stack.enter_context(ssh_server(ssh_folder))
        stack.enter_context(_extra_environment(here))
        metrics_port = stack.enter_context(_watching_replica(here))
        urls = (served.clone_url(bare.name), ssh.url(bare))
        here.apply(*_documents(here, namespace, urls, values, ssh.private_key, ssh.host_key))
        here.apply(*_echoed(here, namespace, echo, values["echoed"]))
        ends = {name: here.wait(namespace, name, _ended, within=300).status for name in (*names, "nowhere", "echoed")}
        for name, status in ends.items():
            print(f"{name}: {status.phase} {status.reason}: {status.message}", file=sys.stderr)
        assert [ends[name].phase for name in names] == [Phase.APPLIED, Phase.FAILED, Phase.APPLIED]
        login = base64.b64encode(f"magos:{values['backend']}".encode()).decode()
        assert all(state.logins == {f"Basic {login}"} for state in states.values()), "the backend was not logged in to"
        kept = here.here.kubectl.run("get", "secrets", "-n", namespace, "-o", "json").encode()
        own = own_secrets(here)
        return Story(
            secrets={**values, **own, "ssh key": ssh.private_key, "url": _refused_url(here, namespace)},
            places={**surfaces(here, namespace), **_everything(here, metrics_port)},
            source=b"\n".join(
                [kept, *(state.state or b"" for state in states.values()), "\n".join(own.values()).encode()]
            ),
        )


def _refused_url(here: OneMachine, namespace: str) -> str:
    """Try to put a password or token into a repository URL, which admission refuses; return it."""
    password = random_secrets.token_urlsafe(16)
    for login in (f"robot:{password}", password):
        url = f"https://{login}@git.example.org/x.git"
        document = here.workspace_document(namespace, "careless", source={"repoURL": url})
        answer = here.here.kubectl.completed(["create", "-f", "-"], stdin=yaml.safe_dump(document))
        assert answer.returncode != 0, "credentials in the URL were admitted"
    return password


def _ended(workspace: Any) -> bool:
    return workspace.status.phase in TERMINAL
