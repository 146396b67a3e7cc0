"""Plain moves in one go: a plan per workflow, compiled by asking `decide`, and taking a move by it."""
