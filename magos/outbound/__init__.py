"""Connections to servers that others name: Git servers and mirrors. Bounded in time and in what they bring.

The modules import the HTTP library only where they need it and are themselves imported lazily.
"""
