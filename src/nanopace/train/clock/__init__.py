"""Where a run's time goes, and what the card's sensors read meanwhile."""
