"""`penstock dev`: a server that takes up workflows, steps and settings as they are saved. Read `command` first."""
