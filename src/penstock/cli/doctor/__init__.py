"""`penstock doctor`: a look at the whole installation, part by part."""
