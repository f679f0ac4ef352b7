"""The layout of a Diagnosis: terminal, HTML page, JSON.

Shared modules: the parts of a report (document.py), where each finding of a run appears (report.py), the summary that
comes first (summary.py), the one-word verdict (page/health.py), and the sections (sections.py, figures.py). compare/
does the same for several runs. terminal/, page/ and json.py build on these.
"""
