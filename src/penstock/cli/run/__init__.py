"""`penstock run`: start a run, perform it here, and watch it to its end. Read `command` first."""
