"""The torch room: the only one that imports torch, and only who trains, samples or converts enters it."""
