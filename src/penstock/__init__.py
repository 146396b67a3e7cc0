"""Penstock: workflows as durable, governed tools. The version is kept here and nowhere else."""

__all__ = ["__version__"]

__version__ = "0.1.0"
