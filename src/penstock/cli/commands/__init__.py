"""Commands as functions: options and arguments are declared in the annotations of their parameters.

Commands import `penstock.cli.declaration` to declare themselves. Here, `parameters` reads their signatures; `command`
makes a command of Click of each; `help_page` prints help, also without Click; `completion` installs completion in a
shell. Read `parameters` first. The package knows nothing of Penstock's own commands.
"""
