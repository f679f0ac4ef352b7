"""Sends figures to W&B, TensorBoard, Trackio and MLflow.

Each tool has a class in libraries.py. The trainer sends figures during training (through sending.py, which cannot stop
it); `nanopace export` sends a finished run.
"""
