"""The page of `nanopace watch --web`: the report of a run, or of many, while they train (docs/live-page.md).

source.py     where a run comes from: a log that is read again when it has changed, or a pipe
rotation.py   a log that was rotated, as one
followed.py   one log: its runs, and whether they are still running
library.py    all of them: which there are, which to read next, within a budget of time
alerts.py     what went wrong, and when it was noticed
bar.py        the head of a page: state, progress, time left, cost
pages.py      a page for one run, for several, or the list of all
channel.py    one page as everybody who has it open sees it, and what changed in it
guard.py      who may ask: Host, Origin, token
app.py        the addresses
serve.py      the server, from its first word to Ctrl-C
"""
