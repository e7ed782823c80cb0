"""Attacks, each by its real means on the real thing: what a configuration, a provider or a server may try."""
