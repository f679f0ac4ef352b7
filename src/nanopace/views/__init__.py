"""A Diagnosis laid out: terminal, HTML page, JSON.

What they share is here: a report's parts (document.py), and which finding of a run is said where (report.py), in which
words first (summary.py), in which one word (health.py), in which sections (sections.py, figures.py). compare/ is the
same for several runs. On top are terminal/, page/ and json.py.
"""
