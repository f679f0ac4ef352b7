"""What a run shall be, with the reason of every choice, before anything is built or written.

`resolve.py` is the way in: `plan.py` (the settings), `device.py` (the machine), `origin.py` (whose weights),
`ladder.py` (what is done without to save memory), `size.py` (what is too large for any computer).
"""
