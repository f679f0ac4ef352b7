"""The page of `nanopace watch --web`: the report of one or more runs while they train (docs/live-page.md).

source.py     where a run comes from: a log that is read again when it changes, or a pipe
rotation.py   a rotated log and its older parts, as one log
followed.py   one log: its runs, and whether they are still running
library.py    all logs: finds them, and decides which to read next within a time budget
bar.py        the head of a page: state, progress, time left, cost, alerts and when they were noticed
pages.py      a page for one run, for several, or the list of all
channel.py    one page as all its viewers see it, and what changed in it
guard.py      access control: Host, Origin, token
app.py        the URLs
serve.py      the server, from start to Ctrl-C
"""
