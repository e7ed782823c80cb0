"""What the machine does in each situation: one module for each part of a run's life."""
