"""Workflows as pictures, in Mermaid and SVG.

Read `model` first: it turns an outline into figures and arrows. `layers` and `layout` place them, `mermaid` and `svg`
write them. The package is pure; it imports `penstock.definitions` and `penstock.base` and nothing else.
"""
