"""Workflows as pictures, in Mermaid and SVG.

`model` turns an outline into figures and arrows, `layers` and `layout` place them, `mermaid` and `svg` write them.
Pure; reads `penstock.definitions` and nothing else.
"""
