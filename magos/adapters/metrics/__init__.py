"""Collectors of the metrics that each controller exposes about its objects, read off its cache."""
