"""`penstock doctor`: checks of the whole installation, part by part. Read `command` first."""
