"""`penstock run`: start a run, perform it here, and watch it to its end.

`source` reads a run through the gate or from a server, `follower` keeps its `view` current, `rendering` turns the view
into lines and `display` shows them; `watch_loop` does this until the run ends. Read `command` first.
"""
