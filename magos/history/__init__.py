"""What is kept of runs when their objects are gone: records in PostgreSQL, logs in a bucket (spec §8)."""
