"""What operators do with a file: back it up and restore it, check its integrity, probe whether it works now."""
