"""A training while it runs: its lines pass through, with comments below them (docs/watch.md).

chosen.py         which file to watch; start.py: a command that writes one
passthrough.py    bytes to standard output at once, and a bounded copy of them for reading
follow.py         a growing file, through rotation and truncation
printer.py        lines, comments and the footer on one output, never mixed up
watcher.py        reads what arrives and comments on it
reading.py        from lines to a run: detection, reader, and rows that a reader holds back
document.py       the same for a file that is a single document
standing.py       how far the run is: an occasional diagnosis, and the rows since
clock_here.py     the time per iteration by our own clock
one_process.py    keeps the rows of one process if several print
observed.py       reports each row as it is read
commentary.py     slow rows, changes of pace, unusual losses
silence.py        no line for much longer than usual
remarks.py        comments on the lines themselves
status.py         progress, time left, speed; for a line or the footer
session.py        puts it all together until the log ends
notify.py         a command or a webhook that receives alerts
"""
