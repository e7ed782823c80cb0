"""Stores what history keeps of runs, beside the controller; nothing is written to the cluster here (spec §8.2)."""
