"""The conformance harness: the engine behind the published test protocol. Read `harness` first."""
