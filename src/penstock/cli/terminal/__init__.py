"""What commands share at the terminal: values in, tables and messages out, exit codes, questions to a person."""
