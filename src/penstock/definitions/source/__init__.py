"""Text to tree: JSON and YAML read into one value in which every part knows its line.

Read `document` first. Touches no other package of definitions.
"""
