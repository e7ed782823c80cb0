"""Takes secret values out of what people are shown: the forms of a secret, the search for them, and our own words.

Pure: nothing here does I/O, and nothing here knows where a secret comes from.
"""
