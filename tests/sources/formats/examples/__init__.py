"""A small log of each format, a module for each family: `EXAMPLES`, from the format's name to text or bytes.

Fuzzing begins with them (bench/fuzzing/formats.py).
"""
