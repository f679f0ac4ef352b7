"""`nanopace recommend`: what to train on a card, how long it takes and to which loss, without the card."""
