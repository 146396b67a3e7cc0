"""The waiting client. Made by `scripts/docs` from `penstock.client.asynchronous`: read and change that."""
