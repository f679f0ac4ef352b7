"""The best settings for a card: `recommend/` predicts them, `search/` measures them, `ablate/` finds the knob that made
the difference.

Shared by those that measure: a short training (`trial.py`), its stored result (`results.py`), how a difference is
divided among knobs (`shapley.py`), and how certain it is (`student.py`).
"""
