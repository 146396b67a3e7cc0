"""From records to state: `evolve` folds one record into the state of a run. Read `evolve` first."""
