"""Write the tree of one commit into a fresh directory, and nothing outside it.

The whole tree, submodules included, is planned and judged before anything is written, so a refused tree leaves no file
behind. Links are judged on the plan and written last, after every regular file. Line-end and encoding conversions of
``.gitattributes`` and LFS are not applied; the result carries a warning where a tree asks for them.
"""

import os
from pathlib import Path

import msgspec
from dulwich.errors import ObjectFormatException
from dulwich.object_store import DiskObjectStore
from dulwich.objects import Blob, Commit, ObjectID, ShaFile, Tree, parse_tree

from magos.bounds import (
    COMMIT_OBJECT,
    EXPORT_CONTENT,
    EXPORT_DEPTH,
    EXPORT_FILES,
    EXPORT_WARNINGS,
    GITATTRIBUTES,
    LFS_POINTER,
    LINK_TARGET,
    TREE_OBJECT,
)
from magos.git.errors import GitError, GitReason
from magos.git.paths import TreePath, display, link_leaves_tree, name_problem
from magos.git.submodules import FetchedRepository, Fetcher, declared_urls
from magos.ids import GitSHA, git_sha

_LINK, _DIRECTORY, _SUBMODULE = 0o120000, 0o040000, 0o160000
_REGULAR, _KIND = 0o100000, 0o170000
_LFS_HEADER = b"version https://git-lfs.github.com/spec/v1\n"
_CONVERSIONS = (b"eol=crlf", b"working-tree-encoding=")
_SHA_BYTES = 20

_Entries = list[tuple[bytes, int, ObjectID]]


class TreeBudget(msgspec.Struct, frozen=True):
    """The limits of spec §7.2: files (links count, and as many directories), bytes of content, depth of a path."""

    files: int = EXPORT_FILES.limit
    content: int = EXPORT_CONTENT.limit
    depth: int = EXPORT_DEPTH.limit


class Written(msgspec.Struct, frozen=True):
    """What was written."""

    files: int
    content: int
    warnings: tuple[str, ...]


class _File(msgspec.Struct, frozen=True):
    path: TreePath
    blob: ObjectID
    executable: bool
    store: DiskObjectStore


class _ExportPlan:
    """Collects a tree and refuses what must not be written."""

    def __init__(self, top: FetchedRepository, limits: TreeBudget, fetch: Fetcher) -> None:
        self.directories: list[TreePath] = []
        self.files: list[_File] = []
        self.links: dict[TreePath, bytes] = {}
        self._top = top
        self._limits = limits
        self._fetch = fetch

    def add_commit(self, repository: FetchedRepository, sha: GitSHA, prefix: TreePath) -> None:
        commit = _look_up(repository.store, ObjectID(sha.encode()))
        if not isinstance(commit, Commit):
            raise self.refusal(prefix, f"is recorded as {sha}, which is not a commit")
        if commit.raw_length() > COMMIT_OBJECT.limit:
            raise self.refusal(prefix, f"is a commit of more than {COMMIT_OBJECT.limit // 1024**2} MiB")
        modules = self._declared(repository, self._entries(repository.store, commit.tree, prefix), prefix)
        pending = [(prefix, commit.tree)]  # one directory at a time is in memory: many may be one large object
        while pending:
            path, tree = pending.pop()
            entries = self._entries(repository.store, tree, path)
            pending += self._add_entries(repository, path, entries, modules, len(prefix))

    def _add_entries(
        self, repository: FetchedRepository, parent: TreePath, entries: _Entries, modules: dict[bytes, str], base: int
    ) -> list[tuple[TreePath, ObjectID]]:
        seen: set[bytes] = set()
        subtrees: list[tuple[TreePath, ObjectID]] = []
        for name, mode, sha in entries:
            path = (*parent, name)
            self._check(path, duplicate=name in seen)
            seen.add(name)
            kind = mode & _KIND
            if kind == _REGULAR:
                self.files.append(_File(path, sha, bool(mode & 0o100), repository.store))
            elif kind == _LINK:
                self.links[path] = self._link_target(repository.store, path, sha)
            elif kind == _DIRECTORY:
                self.directories.append(path)
                subtrees.append((path, sha))
            elif kind == _SUBMODULE:
                self.directories.append(path)
                self._add_submodule(repository, path, modules.get(b"/".join(path[base:])), git_sha(sha.decode()))
            else:
                raise self.refusal(path, f"has the unknown mode {mode:o}")
        return subtrees

    def _add_submodule(self, repository: FetchedRepository, path: TreePath, reference: str | None, sha: GitSHA) -> None:
        if reference is None:
            raise self.refusal(path, "is a submodule without a URL in .gitmodules")
        self.add_commit(self._fetch(repository, path, reference, sha), sha, path)

    def _check(self, path: TreePath, *, duplicate: bool) -> None:
        if problem := name_problem(path[-1]):
            raise self.refusal(path, problem)
        if duplicate:
            raise self.refusal(path, "occurs twice in its directory")
        if len(path) > self._limits.depth:
            raise self.refusal(path, f"is deeper than {self._limits.depth} directories")
        if len(self.files) + len(self.links) >= self._limits.files or len(self.directories) >= self._limits.files:
            raise GitError(
                GitReason.GIT_FAILED,
                f"{self._top.url} holds more than {self._limits.files:,} files or directories; split the repository",
            )

    def _link_target(self, store: DiskObjectStore, path: TreePath, sha: ObjectID) -> bytes:
        target = self.blob(store, sha, path).data
        if len(target) > LINK_TARGET.limit or path[-1].lower() in {b".gitmodules", b".gitattributes"}:
            raise self.refusal(path, "must not be a link")
        return target

    def check_links(self) -> None:
        for path in self.links:
            if link_leaves_tree(path, self.links):
                raise self.refusal(path, f"is a link that leaves the repository ({display((self.links[path],))})")

    def _declared(self, repository: FetchedRepository, root: _Entries, prefix: TreePath) -> dict[bytes, str]:
        for name, mode, sha in root:
            if name != b".gitmodules":
                continue
            path = (*prefix, name)
            if mode & _KIND != _REGULAR:
                raise self.refusal(path, "is not a regular file")
            try:
                return declared_urls(self.blob(repository.store, sha, path).data)
            except ValueError as error:
                raise self.refusal(path, f"cannot be read: {error}") from error
        return {}

    def _entries(self, store: DiskObjectStore, sha: ObjectID, path: TreePath) -> _Entries:
        """Return the entries as they are stored: the library's own tree object hides a name that occurs twice."""
        try:
            kind, raw = store.get_raw(sha)
            if kind == Tree.type_num and len(raw) > TREE_OBJECT.limit:
                raise self.refusal(path, f"is a directory of more than {TREE_OBJECT.limit // 1024**2} MiB")
            if kind == Tree.type_num:
                return [
                    (name, mode, ObjectID(entry)) for name, mode, entry in parse_tree(raw, _SHA_BYTES, strict=False)
                ]
        except (KeyError, ValueError, ObjectFormatException) as error:
            raise self.refusal(path, f"refers to {sha.decode()}, which is missing or damaged") from error
        raise self.refusal(path, f"refers to {sha.decode()}, which is no directory")

    def blob(self, store: DiskObjectStore, sha: ObjectID, path: TreePath) -> Blob:
        found = _look_up(store, sha)
        if not isinstance(found, Blob):
            raise self.refusal(path, f"refers to {sha.decode()}, which is missing or no file")
        return found

    def refusal(self, path: TreePath, problem: str) -> GitError:
        return GitError(
            GitReason.GIT_FAILED,
            f"{self._top.url}: entry {display(path) or '/'!r} {problem};"
            " nothing was checked out, correct the repository",
        )


def export_tree(
    top: FetchedRepository, sha: GitSHA, destination: Path, fetch: Fetcher, limits: TreeBudget | None = None
) -> Written:
    """Write the tree of commit ``sha`` and its submodules into the directory ``destination``, which must be empty.

    Raises ``GitError`` (GitFailed) naming the entry that was refused or could not be written.
    """
    bounds = limits or TreeBudget()
    plan = _ExportPlan(top, bounds, fetch)
    try:
        plan.add_commit(top, sha, ())
    except RecursionError:
        raise GitError(GitReason.GIT_FAILED, f"{top.url}: submodules contain each other; correct .gitmodules") from None
    plan.check_links()
    return _write(plan, os.fsencode(destination), bounds, top)


def _write(plan: _ExportPlan, root: bytes, limits: TreeBudget, top: FetchedRepository) -> Written:
    warnings: list[str] = []
    total = 0
    path: TreePath = ()
    try:
        for path in plan.directories:
            os.mkdir(_join(root, path), 0o755)  # noqa: PTH102  # names are bytes here
        for file in plan.files:
            path = file.path
            blob = plan.blob(file.store, file.blob, path)
            total += blob.raw_length()
            if total > limits.content:
                raise GitError(
                    GitReason.GIT_FAILED,
                    f"{top.url} holds more than {limits.content // 1024**2} MiB (reached at {display(path)!r});"
                    " split the repository",
                )
            _write_file(_join(root, path), blob, executable=file.executable)
            warnings += _warnings_about(path, blob)
        for path, target in plan.links.items():
            os.symlink(target, _join(root, path))  # noqa: PTH211
    except OSError as error:
        raise plan.refusal(path, f"cannot be written ({error.strerror})") from error
    most = EXPORT_WARNINGS.limit
    if len(warnings) > most:
        warnings = [*warnings[:most], f"and {len(warnings) - most} more warnings about the tree"]
    return Written(len(plan.files) + len(plan.links), total, tuple(warnings))


def _write_file(path: bytes, blob: Blob, *, executable: bool) -> None:
    mode = 0o755 if executable else 0o644
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)  # the umask must not decide what is executable
        file.writelines(blob.chunked)


def _warnings_about(path: TreePath, blob: Blob) -> list[str]:
    if path[-1] == b".gitattributes" and _mentions(blob, _CONVERSIONS):
        return [
            f"{display(path)} asks for line-end or encoding conversion, which is not applied: files stay as committed"
        ]
    if blob.raw_length() < LFS_POINTER.limit and blob.data.startswith(_LFS_HEADER):
        return [f"{display(path)} is a Git LFS pointer; its content was not fetched, LFS is not supported"]
    return []


def _mentions(blob: Blob, words: tuple[bytes, ...]) -> bool:
    beginning = blob.data[: GITATTRIBUTES.limit]
    return any(word in beginning for word in words)


def _look_up(store: DiskObjectStore, sha: ObjectID) -> ShaFile | None:
    try:
        return store[sha]
    except KeyError:
        return None


def _join(root: bytes, path: TreePath) -> bytes:
    return b"/".join([root, *path])
