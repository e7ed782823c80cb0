"""The state of the API server, followed by watching: list and watch, cache, indices, and what cannot be decoded."""
