"""Runs held against each other, in sentences, tables and sections that terminal and page both show."""
