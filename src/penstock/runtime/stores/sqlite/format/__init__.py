"""The format of the file: its tables, its version, how older files become current, and how free space is given back."""
