"""`nanopace recommend`: what to train on a card, how long it takes and to what loss, without needing the card."""
