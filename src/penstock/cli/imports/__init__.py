"""`penstock tool import`: descriptions of other people's APIs as tools. Read `openapi` first."""
