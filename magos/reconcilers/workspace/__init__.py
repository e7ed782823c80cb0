"""The Workspace's reconciler: ``observation`` in, ``machine`` decides, see ``docs/design/workspace-machine.md``."""
