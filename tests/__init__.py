"""The tests of Magos."""
