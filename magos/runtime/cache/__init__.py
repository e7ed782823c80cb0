"""What the API server said, followed by watching: list and watch, cache, indices, and what cannot be decoded."""
