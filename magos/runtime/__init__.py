"""A controller runtime: informers, a work queue, ordered effects, leader election. ``README.md`` is the way in."""
