"""The ledger: the only door between the trainer and the analyst."""
