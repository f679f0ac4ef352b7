"""Where every moment of a run goes, and what the card's sensors say meanwhile."""
