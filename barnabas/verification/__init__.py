"""Whether a cluster keeps its promises: a history of produces, polls and commits, and what is wrong in it.

`events.py` says what a history is made of and `history.py` how it stands in a file. `judge.py` takes events and has
findings; it knows no client, no clock and no file. `recording/` makes a history by putting a load on a cluster.
`report.py` turns a verdict into sentences and JSON.
"""
