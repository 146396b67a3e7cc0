"""The workflow document: its model, and how it is read, checked, compared, hashed and described."""
