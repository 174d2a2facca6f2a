"""A setting for a link: which discipline, with which parameters, at which rate.

`task` says what is tuned and on which link, `candidates` which settings are compared, `judge` what makes one better
than another, and `search` plays them and chooses. `router` writes the choice for a router, and `picture` draws it.
"""
