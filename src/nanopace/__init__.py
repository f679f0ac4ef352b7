"""nanopace: train GPTs on the GPU you have, and know where every millisecond goes."""
