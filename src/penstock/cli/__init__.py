"""The command line: its commands talk to a server or embed the application."""
