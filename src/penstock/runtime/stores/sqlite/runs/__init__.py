"""Tables about runs: rows and their index, definitions, names, schedules, workers."""
