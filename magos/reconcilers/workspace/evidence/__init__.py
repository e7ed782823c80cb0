"""What can be told from an observation: triggers, what became of a Job, and why a pod does not start."""
