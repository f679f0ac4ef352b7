"""The cards people train on: their peaks, what a model costs in FLOPs, and what fits in memory."""
