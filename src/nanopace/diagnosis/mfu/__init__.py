"""How much of the card does useful work, and what is odd about the printed mfu."""
