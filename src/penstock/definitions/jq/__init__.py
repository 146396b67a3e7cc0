"""jq: expressions and templates that are compiled once, and the static analysis of programs.

Read `expressions` first. The package computes with libjq, in this process, and touches nothing else: a deny-list of
built-ins keeps out clocks, the environment and other inputs. Below it: `base`, and `schemas` for the `Evaluator`
protocol.
"""
