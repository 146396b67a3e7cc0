"""Drawings of workflows, in Mermaid and SVG.

Read `model` first. It turns an outline into figures and arrows; `layers` and `layout` place them, `mermaid` and `svg`
write them. The package is pure and imports only `penstock.definitions` and `penstock.base`.
"""
