"""A training while it runs: its lines pass through, and what they leave out is said under them (docs/watch.md).

chosen.py         which file is meant, start.py a command that writes one
passthrough.py    bytes on to standard output at once, and a bounded copy of them for whoever reads
follow.py         a growing file, through rotation and truncation
printer.py        lines, comments and the footer on one output, none in the middle of another
watcher.py        what comes, and what is said about it
reading.py        lines to a run: detection, reader, and what a reader holds back
document.py       the same of a file that is one document
standing.py       how far it is: the diagnosis now and then, and the rows since
clock_here.py     what an iteration takes by the clock of whoever watches
one_process.py    of rows that several processes print, those of one
observed.py       tells of each row as it is read
commentary.py     what a slow row was, a change of the pace, a loss that stands out
silence.py        no line for much longer than usual
remarks.py        what is said of the lines themselves
status.py         where it stands: progress, time left, speed; for a line or the footer
session.py        all of it together, until the log ends
notify.py         a command or a web hook that hears of alerts
"""
