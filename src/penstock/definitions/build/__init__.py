"""From a document without errors to the compiled workflow that the engine walks. Read `workflow` first."""
