"""The ground floor: identifiers, the clock protocol, errors, JSON and named limits. Standard library only."""
