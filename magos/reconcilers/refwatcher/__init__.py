"""RefWatcher: what is polled when, and what an answer means for a Workspace (spec §6.7). Pure throughout."""
