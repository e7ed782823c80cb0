"""Reference pages made from the code: flags, environment, keys, metrics and reasons (``scripts/gen``)."""
