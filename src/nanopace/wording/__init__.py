"""Codes and numbers in, sentences out, in four languages."""
