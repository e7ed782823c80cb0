"""From a change to a write: sources, work queue, the loop, the view of a pass, queries, effects, Events."""
