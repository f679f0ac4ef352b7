"""The best settings for a card: foretold without one by `recommend`."""
