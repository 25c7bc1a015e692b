"""The clients of a run: programs that write their history to standard output, and hear commands on standard input.

A line is the time in nanoseconds of the machine's monotonic clock, which all processes share, and what happened then:
an event as docs/verify.md describes it, or `table …` with what happened to a record of the compacted topic. A line that
begins with `!` answers a command: `quiet` (send no more, and wait for all answers), `finish {ends}` (read to the end),
and `read-back {ends}`.
"""
