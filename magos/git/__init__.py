"""Git for the runner and the RefWatcher: resolve a revision, fetch exactly one commit, export it safely.

The package promises: credentials reach the repository's own origin alone; a pinned commit is fetched or the
call fails, never another one; nothing is written outside the destination. All calls block and belong in a thread or in
the runner. Importing the package is cheap: the Git library is loaded by the first call that talks to a server.

Entry points: :func:`magos.git.checkout.checkout`, :func:`magos.git.lsremote.ls_remote`,
:func:`magos.git.gitaccess.git_access`.
"""
