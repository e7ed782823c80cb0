"""Kubeconfig files for tests, and a clock that is moved by hand."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from magos.runtime.client.config import ConnectionConfig, load_config

__all__ = ["SetClock", "document", "load", "write"]


class SetClock:
    """Clocks that stand until they are moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)


def document(user: dict[str, Any] | None = None, **cluster: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "preferences": {},
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443/", **cluster}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {"name": "there", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
        ],
    }


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def load(path: Path, context: str = "", **environ: str) -> ConnectionConfig:
    return load_config(str(path), context, environ=environ, clock=SetClock())
