"""The ports that stores implement: `runs` for histories and their index, `platform` for everything that is kept beside
runs.
"""
