"""A program that got hold of a container of stage ``fetch``: searches all it can read, and asks whom it can reach.

Run inside the container as its user while ``get`` runs. Standard input: a JSON object with ``forms`` (what to look
for, in hexadecimal), ``deeds`` (what to try), the ``variables`` that the tool was given and ``repository`` (the path of
a private repository). Prints a JSON object with what was ``found`` and where, how much was searched, and what became of
the deeds.
"""

import http.client
import json
import os
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

SKIPPED = ("/proc", "/sys", "/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt")
CHUNK = 1 << 20
FETCH = "git-upload-pack"

asked = json.load(sys.stdin)
forms = [bytes.fromhex(form) for form in asked["forms"]]
found: list[str] = []
searched: dict[str, int] = {}
deeds: dict[str, str] = {}


def note(kind: str, place: str, content: bytes) -> None:
    searched[kind] = searched.get(kind, 0) + 1
    if any(form in content for form in forms):
        found.append(f"{kind} {place}")


def chunks(path: Path) -> Iterator[bytes]:
    before = b""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield before + chunk
            before = chunk[-512:]


def files() -> None:
    for folder, names, here in os.walk("/"):
        names[:] = [name for name in names if not os.path.join(folder, name).startswith(SKIPPED)]  # noqa: PTH118
        for name in here:
            path = Path(folder, name)
            try:
                if stat.S_ISREG(path.stat().st_mode):
                    for chunk in chunks(path):
                        note("file", str(path), chunk)
            except OSError:
                continue


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]  # noqa: PTH208


def memory(pid: int) -> None:
    with Path(f"/proc/{pid}/maps").open() as maps, Path(f"/proc/{pid}/mem").open("rb", 0) as mem:
        for line in maps:
            span, mode, *_ = line.split()
            begin, end = (int(part, 16) for part in span.split("-"))
            if not mode.startswith("rw"):
                continue
            for start in range(begin, end, CHUNK):
                try:
                    mem.seek(start)
                    note("memory", str(pid), mem.read(min(CHUNK + 512, end - start)))
                except (OSError, ValueError, OverflowError):
                    break


def proc() -> None:
    for pid in processes():
        for name in ("environ", "cmdline"):
            try:
                note(name, str(pid), Path(f"/proc/{pid}/{name}").read_bytes())
            except OSError:
                searched[f"{name} refused"] = searched.get(f"{name} refused", 0) + 1
        try:
            memory(pid)
        except OSError:
            searched["memory refused"] = searched.get("memory refused", 0) + 1
        try:
            for entry in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
                path = Path(f"/proc/{pid}/fd/{entry}")
                if stat.S_ISREG(path.stat().st_mode):
                    for chunk in chunks(path):
                        note("descriptor", f"{pid}/{entry}", chunk)
        except OSError:
            continue


def variable(name: str) -> str:
    """A variable of the tool: whatever the tool starts knows it."""
    return str(asked["variables"][name])


def request(deed: str, method: str, path: str, body: bytes = b"", **headers: str) -> None:
    base = urlsplit(variable("MAGOS_GIT_PROXY"))
    prefix = "" if deed == "without the path" else base.path
    connection = http.client.HTTPConnection(base.hostname or "", base.port, timeout=20)
    connection.request(method, prefix + path, body or None, headers)
    response = connection.getresponse()
    try:
        content = response.read()
    except http.client.IncompleteRead as error:
        content = b"broken off: " + error.partial
    note("answer", deed, b"\n".join(f"{name}: {value}".encode() for name, value in response.getheaders()) + content)
    deeds[deed] = f"{response.status} {content[:60]!r}"


def proxy() -> None:
    deeds["origin"] = variable("MAGOS_GIT_ORIGIN")
    repository = asked["repository"]
    receive = "application/x-git-receive-pack-request"
    request("fetch", "GET", f"{repository}/info/refs?service={FETCH}")
    request("without the path", "GET", f"{repository}/info/refs?service={FETCH}")
    request("refs for push", "GET", f"{repository}/info/refs?service=git-receive-pack")
    request("push", "POST", f"{repository}/git-receive-pack", b"0000", **{"Content-Type": receive})
    request("dumb", "GET", f"{repository}/HEAD")
    request("dumb refs", "GET", f"{repository}/info/refs")
    request("lfs", "POST", f"{repository}/info/lfs/objects/batch", b"{}")
    request("api", "GET", "/api/v4/personal_access_tokens/self")
    request("api in disguise", "GET", f"/api/v4/user%3f/info/refs?service={FETCH}")
    request("api by dots", "GET", f"/x/%2e%2e/api/info/refs?service={FETCH}")
    request("echo", "GET", f"/echo/info/refs?service={FETCH}")
    request("put", "PUT", f"{repository}/info/refs?service={FETCH}", b"x")


def ssh(deed: str, *arguments: str, nonce: str = "", wait: bool = True) -> socket.socket:
    name, own = variable("MAGOS_GIT_RELAY").split()
    stage = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stage.settimeout(30)
    stage.connect(f"\0{name}")
    ends = [os.pipe() for _ in range(3)]
    text = json.dumps({"nonce": nonce or own, "arguments": arguments, "protocol": ""}).encode()
    socket.send_fds(stage, [text], [ends[0][0], ends[1][1], ends[2][1]])
    os.close(ends[1][1])
    os.close(ends[2][1])
    if not wait:
        deeds[deed] = repr(os.read(ends[1][0], 100))
        return stage
    os.write(ends[0][1], b"0000")
    os.close(ends[0][1])
    output = b"".join(iter(lambda: os.read(ends[1][0], CHUNK), b""))
    errors = b"".join(iter(lambda: os.read(ends[2][0], CHUNK), b""))
    answer = stage.recv(CHUNK)
    note("answer", deed, output + errors + answer)
    deeds[deed] = f"{output[:60]!r} {errors[-200:]!r} {answer!r}"
    return stage


def agent() -> None:
    """Ask the agent as a client does that was not started by the stage."""
    for path in Path("/").glob("*/access-*/agent"):
        with socket.socket(socket.AF_UNIX) as talk:
            talk.settimeout(20)
            talk.connect(str(path))
            try:
                talk.sendall(b"\0\0\0\x01\x0b")
                deeds["agent"] = repr(talk.recv(100))
            except OSError as error:
                deeds["agent"] = type(error).__name__


def relay() -> None:
    repository = asked["repository"]
    user, host, port, other = (asked[name] for name in ("user", "host", "port", "other"))
    target = f"{user}@{host}"
    agent()
    ssh("fetch", "-p", port, target, f"{FETCH} '{repository}'")
    ssh("push", "-p", port, target, f"git-receive-pack '{repository}'")
    ssh("shell", "-p", port, target, "id")
    ssh("two commands", "-p", port, target, f"{FETCH} '{repository}'; id")
    ssh("quoted", "-p", port, target, f"{FETCH} '{repository}''$(id)'")
    ssh("forward", "-A", "-p", port, target, f"{FETCH} '{repository}'")
    ssh("option", "-o", "ProxyCommand=id", "-p", port, target, f"{FETCH} '{repository}'")
    ssh("another port", "-p", other, target, f"{FETCH} '{repository}'")
    ssh("another user", "-p", port, f"nobody@{host}", f"{FETCH} '{repository}'")
    ssh("without the word", "-p", port, target, f"{FETCH} '{repository}'", nonce="0" * 32)
    talk = ssh("client that waits", "-p", port, target, f"{FETCH} '{repository}'", wait=False)
    clients = [pid for pid in processes() if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ssh\0")]
    deeds["clients"] = str(len(clients))
    for pid in clients:
        for name in ("mem", "environ", "maps"):
            attempt(f"{name} of the client", Path(f"/proc/{pid}/{name}").read_bytes)
        attempt("fd of the client", list, Path(f"/proc/{pid}/fd").iterdir())
    proc()
    talk.close()


def attempt(deed: str, act: Callable[..., object], *arguments: object) -> None:
    try:
        act(*arguments)
    except OSError as error:
        deeds[deed] = type(error).__name__
    else:
        deeds[deed] = "done"


for deed in asked["deeds"]:
    globals()[deed]()
print(json.dumps({"found": sorted(set(found)), "searched": searched, "deeds": deeds}))
