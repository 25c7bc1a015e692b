"""Three real brokers whose processes, disks and links are broken on purpose, under clients that write down what they
are told. docs/reliability.md says what is done, and what came of it.
"""
