"""What stands between a pure reconciler and the outside world: answers to its probes, readers, pollers, metrics.

An adapter reads the cluster, a Git server or a file, and imports the reconciler whose questions it answers. Only the
composition roots in ``magos.apps`` know which adapters a process has. No adapter reads the environment: what a
function here needs of it is given as a mapping.
"""
