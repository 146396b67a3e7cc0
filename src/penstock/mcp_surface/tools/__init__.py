"""The tools of a caller: names, schemas, hints, and which of them are listed. Read `registry` first."""
