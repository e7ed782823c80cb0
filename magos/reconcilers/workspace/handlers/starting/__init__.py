"""The start of a plan and of an apply: the checks in their order, then the Job."""
