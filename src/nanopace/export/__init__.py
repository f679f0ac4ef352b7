"""Exports runs to other tools: trackers, tables and trace viewers. Whatever nanopace can read, it can export.

points.py reconstructs the time of each row; every other module writes one kind of output.
"""
