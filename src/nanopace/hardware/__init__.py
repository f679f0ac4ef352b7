"""The cards people train on: their peaks, a model's cost in FLOPs, and what fits in memory."""
