"""Real Git servers against our client."""
