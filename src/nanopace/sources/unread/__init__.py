"""What to say of a file that no format reads: that it quotes a log, its line most like a row, a --pattern for it."""
