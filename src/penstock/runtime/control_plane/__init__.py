"""The seven published control-plane functions over any host.

`functions` has the functions and the port that they need, `hosts` implements that port, `views` builds the answers,
`submits` and `leasing` read what hosts send about activities. It uses hosts through their ports and does no I/O of its
own. Read `functions` first.
"""
