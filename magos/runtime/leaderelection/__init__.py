"""Who may write: one process at a time, by a Lease."""
