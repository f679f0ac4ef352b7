"""Figures to the tools that people look at runs with: W&B, TensorBoard, Trackio, MLflow.

Each tool has a module that knows its library and nothing else. The trainer sends to them while it trains
(sending.py, which cannot stop it); `nanopace export` hands over a run that is done.
"""
