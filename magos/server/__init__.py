"""The API server: reads, live streams and actions over HTTP, for people and programs (spec §9)."""
