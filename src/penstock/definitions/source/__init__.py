"""From text to tree: reads JSON and YAML into one value in which every part knows its line.

Read `document` first. The package is pure and imports no other package of `definitions`.
"""
