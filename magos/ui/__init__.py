"""The web UI: view models and HTML, rendered on the server without external assets (spec §10). It does no I/O."""
