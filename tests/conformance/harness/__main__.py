"""`python -m tests.conformance.harness`, which `scripts/harness` runs."""

from tests.conformance.harness.protocol import main

main()
