"""Attacks with real programs on the other side."""
