"""The Job of a run and its pod: stages, environment, settings, and the record of what it was created with."""
