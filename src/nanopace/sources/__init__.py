"""Logs in, Runs out: one file per trainer's format, and what all of them share."""
