"""Repositories in a local directory (scheme class ``file``).

The module imports the Git library and is itself imported lazily.
"""

from collections.abc import Sequence

from dulwich.client import LocalGitClient, LsRemoteResult
from dulwich.objects import ObjectID
from dulwich.refs import Ref
from dulwich.repo import Repo


class LocalClient(LocalGitClient):
    """Reads a local repository and, unlike its base, also tells which commits its tags point to."""

    protocol_version = 0

    def get_refs(
        self,
        path: str | bytes,
        protocol_version: int | None = None,
        ref_prefix: Sequence[bytes] | None = None,
    ) -> LsRemoteResult:
        """Return the references and, as ``<name>^{}``, what annotated tags point to."""
        result = super().get_refs(path, protocol_version, ref_prefix)
        refs: dict[Ref, ObjectID | None] = dict(result.refs)
        with Repo(path.decode() if isinstance(path, bytes) else path) as repository:
            for name in result.refs:
                peeled = repository.get_peeled(name)
                if peeled != result.refs[name]:
                    refs[Ref(name + b"^{}")] = peeled
            return LsRemoteResult(refs, result.symrefs, object_format=repository.object_format.name)
