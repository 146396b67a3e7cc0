"""Commands about workflow files: validate, graph, diff, simulate, test, schema. They store nothing."""
