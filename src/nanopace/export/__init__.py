"""A run for other tools: trackers, tables, and a trace to look at. Whatever can be read can be exported.

points.py puts a run on its clock; each other module writes that for one kind of reader.
"""
