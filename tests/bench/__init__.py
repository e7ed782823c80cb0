"""Figures: what Magos costs, as ratios and counts that another machine can compare."""
