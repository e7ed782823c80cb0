"""From Structs to CustomResourceDefinitions: ``crds/`` and the field tables of ``docs/spec`` are generated.

The Structs give names, types, defaults and descriptions; ``rules`` adds what a value must satisfy; ``crd`` adds how the
kind is served and shown. Nothing of this is imported by a running controller.
"""
