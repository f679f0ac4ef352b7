"""Training with the host's memory: `arena` is that memory, `bus` the way there and back, `states` the update.

What lies there is the last step of the memory ladder (memory_ladder.py), and nothing in it changes what is learned.
"""
