"""Comparisons of runs as sentences, tables and sections, shared by terminal and page."""
