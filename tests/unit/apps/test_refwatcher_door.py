"""The one masking door of RefWatcher: what a server repeats of what it was sent reaches no condition, Event or log."""

import base64
import traceback
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from unittest.mock import patch
from urllib.parse import quote

import pytest

from magos.adapters.gitlister import ListingCrashed, _Answer, _listed, _Refused
from magos.git.credentials import Credentials
from magos.git.errors import GitError, GitReason
from magos.git.lsremote import LsRemotesRequest
from magos.local.servers.loopback import StaticServer, serving
from magos.reconcilers.refwatcher.machine import Failure

PASSWORD = "tr0ub4dor&3/corr+ct-h0rse"
BASIC = base64.b64encode(f"user:{PASSWORD}".encode()).decode()
CREDENTIALS = Credentials(username="user", password=PASSWORD)


def refusal(server: type[BaseHTTPRequestHandler], target: str = "main") -> str:
    answering = StaticServer(("127.0.0.1", 0), server)
    with serving(answering, "echo"):
        url = f"http://127.0.0.1:{answering.server_port}/r.git"
        answer = _listed(LsRemotesRequest(url, (target,), ("http",), CREDENTIALS))
    found = answer.failure if isinstance(answer, _Refused) else answer.results[target]
    assert isinstance(found, Failure)
    return found.message


def wrapped(text: str) -> str:
    return "\n ".join(text[at : at + 9] for at in range(0, len(text), 9))


class Echo(BaseHTTPRequestHandler):
    """Answers as the subclass says; the credentials are those it was sent."""

    shape: Callable[[str], str] = str

    def received(self) -> str:
        scheme, _, login = (self.headers["Authorization"] or "").partition(" ")
        assert scheme == "Basic"
        return type(self).shape(base64.b64decode(login).decode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Nothing is printed."""


class ContentType(Echo):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/" + self.received().replace("\n", ""))
        self.end_headers()


class ErrorLine(Echo):
    def do_GET(self) -> None:
        said = f"ERR who is {self.received()}?\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
        self.end_headers()
        self.wfile.write(b"001e# service=git-upload-pack\n0000" + f"{len(said) + 4:04x}".encode() + said)


class Redirect(Echo):
    def do_GET(self) -> None:
        self.send_response(301)
        self.send_header("Location", "ftp://elsewhere/" + self.received().replace("\n", ""))
        self.end_headers()


class LongName(Echo):
    def do_GET(self) -> None:
        line = f"no-object-id refs/heads/{self.received() * 3}\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
        self.end_headers()
        packet = f"{len(line) + 4:04x}".encode() + line
        self.wfile.write(b"001e# service=git-upload-pack\n0000" + packet + b"0000")


SHAPES: dict[str, Callable[[str], str]] = {
    "plain": lambda login: login,
    "password": lambda login: login.partition(":")[2],
    "base64": lambda login: base64.b64encode(login.encode()).decode(),
    "url": lambda login: quote(login, safe=""),
    "wrapped": lambda login: wrapped(base64.b64encode(login.encode()).decode()),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("server", [ContentType, ErrorLine, Redirect, LongName])
def test_what_a_server_repeats_of_the_login_is_masked(server: type[Echo], shape: str) -> None:
    echo = type("Shaped", (server,), {"shape": staticmethod(SHAPES[shape])})
    message = refusal(echo)
    squeezed = "".join(message.split())
    for secret in (PASSWORD, BASIC, quote(PASSWORD, safe=""), base64.b64encode(PASSWORD.encode()).decode()):
        assert not [at for at in range(len(secret) - 11) if secret[at : at + 12] in squeezed]


class Refusing(Echo):
    def do_GET(self) -> None:
        self.send_response(401)
        self.end_headers()


def test_a_user_name_that_is_an_ordinary_word_does_not_mask_our_advice() -> None:
    message = refusal(Refusing)
    assert "did not accept user name and password of the repository Secret" in message
    assert "check the repository Secret: its label, username, password, repoURL" in message


def test_a_crash_tells_its_traceback_without_the_credentials() -> None:
    request = LsRemotesRequest("http://127.0.0.1:1/r.git", ("main",), ("http",), CREDENTIALS)
    with (
        patch("magos.adapters.gitlister.ls_remotes", side_effect=RuntimeError(f"{BASIC} {PASSWORD}")),
        pytest.raises(ListingCrashed) as caught,
    ):
        _listed(request)
    told = "".join(traceback.format_exception(caught.value))
    assert "RuntimeError: *** ***" in told
    assert PASSWORD not in told


def test_what_is_said_of_one_target_is_masked_as_well() -> None:
    request = LsRemotesRequest("http://127.0.0.1:1/r.git", ("main",), ("http",), CREDENTIALS)
    error = GitError(GitReason.REVISION_NOT_FOUND, f"no {PASSWORD}")
    with patch("magos.adapters.gitlister.ls_remotes", return_value={"main": error}):
        assert _listed(request) == _Answer({"main": Failure(GitReason.REVISION_NOT_FOUND, "no ***")}, 0.0)
