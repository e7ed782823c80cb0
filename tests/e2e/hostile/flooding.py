"""Servers that send without end on one channel, and a controller's worth of clients that ask them.

The clients run in a process of their own, so that its peak of memory says what they held.
"""

import json
import os
import socket
import socketserver
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from magos.git.credentials import ANONYMOUS, Credentials
from magos.local.servers.loopback import serving

__all__ = ["Asked", "Question", "ask", "flood"]

_CLIENT = textwrap.dedent(
    """
    import json, resource, signal, sys, threading, time
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path
    import msgspec
    from magos.git.credentials import Credentials
    from magos.git.errors import GitError
    from magos.git.lsremote import LsRemotesRequest, ls_remotes
    import magos.git.remote

    questions, folder, file_limit = json.load(sys.stdin)
    if file_limit:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))

    def answer(question):
        request = LsRemotesRequest(
            question["url"], tuple(question["targets"]), ("http", "git", "ssh"),
            msgspec.convert(question["credentials"], Credentials), question["seconds"], Path(folder),
        )
        try:
            return {target: getattr(found, "sha", str(found)) for target, found in ls_remotes(request).items()}
        except GitError as error:
            return f"{error.reason}: {error.message}"

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with ThreadPoolExecutor(len(questions)) as pool:
        answers = list(pool.map(answer, questions))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    threads = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    json.dump([answers, before * 1024, after * 1024, threads], sys.stdout)
    """
)


class Question(msgspec.Struct, frozen=True):
    """One listing."""

    url: str
    targets: tuple[str, ...] = ("main",)
    credentials: Credentials = ANONYMOUS
    seconds: float = 60.0


class Asked(msgspec.Struct, frozen=True):
    """The answers in order: target -> SHA or error, or the error of all; bytes of memory before and at the peak.

    ``threads`` names those that were still there after the last answer.
    """

    answers: list[Any]
    before: int
    peak: int
    threads: list[str]

    @property
    def grown(self) -> int:
        """Bytes of memory that asking took at its worst moment."""
        return self.peak - self.before


def ask(folder: Path, *questions: Question, file_limit: int = 0) -> Asked:
    """Ask all questions at once, as the workers of a controller do; no file may grow beyond ``file_limit`` bytes."""
    done = subprocess.run(
        [sys.executable, "-c", _CLIENT],
        input=json.dumps([msgspec.to_builtins(questions), str(folder), file_limit]),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "MALLOC_ARENA_MAX": "2"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "what a server sends is not written to the log"
    return Asked(*json.loads(done.stdout))


@contextmanager
def flood(first: bytes, again: bytes, *, scheme: str = "http") -> Iterator[str]:
    """Answer every connection with ``first`` and then ``again`` for ever; yields the URL of a repository."""
    again *= max(1, 65536 // max(len(again), 1)) if again else 1

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            connection: socket.socket = self.request
            with suppress(OSError):  # the client has had enough
                connection.recv(65536)
                connection.sendall(first)
                while again:
                    connection.sendall(again)
                while connection.recv(65536):
                    pass

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 64

    server = Server(("127.0.0.1", 0), Handler)
    with serving(server, "flood"):
        yield f"{scheme}://127.0.0.1:{server.server_address[1]}/r.git"
