"""`python -m penstock`: the command line without its script on the path."""

from penstock.cli.main import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
