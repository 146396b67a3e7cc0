"""`penstock dev`: a server for the time in which workflows are written. Read `command` first."""
