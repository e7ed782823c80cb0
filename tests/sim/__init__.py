"""Tests under virtual time."""
