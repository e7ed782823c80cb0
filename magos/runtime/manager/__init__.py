"""A controller as a process: what it consists of, how it starts and stops, what it tells of itself."""
