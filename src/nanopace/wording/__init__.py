"""Turns codes and numbers into sentences, in four languages."""
