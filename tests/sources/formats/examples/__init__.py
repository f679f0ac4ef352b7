"""A small log of each format, one module per family: `EXAMPLES` maps the format's name to text or bytes.

Fuzzing starts from them (bench/fuzzing/formats.py).
"""
