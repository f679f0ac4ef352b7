"""The best settings for a card: `recommend/` predicts them, `search/` measures them, `ablate/` says which knob did it.

What the measuring ones share is here: one short training (`trial.py`), what is kept of it (`results.py`), and how a
difference is shared out among knobs (`shapley.py`).
"""
