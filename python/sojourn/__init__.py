"""A laboratory for queue management against bufferbloat.

`sojourn.sweep.compare("scenario.toml")` is `sojourn run` from Python.
"""
