"""The API server as typed calls: transport, credentials, encoding, errors. Knows no cache and no controller."""
