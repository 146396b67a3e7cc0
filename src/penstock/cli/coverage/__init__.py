"""`penstock coverage`: proof that nothing is missing on a surface or in the documentation."""
