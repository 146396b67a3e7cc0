"""`penstock runs top`: what a server or a file is doing, live in the terminal.

`snapshot` asks operations, `screen` shows what they answered, `keys` reads the keyboard. Read `command` first.
"""
