"""A command for every operation of the catalogue, made from the client's table of operations. Read `commands` first."""
