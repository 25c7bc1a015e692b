"""The same bytes to Barnabas and to Apache Kafka, and their answers compared field by field.

    schemas, codec    Kafka's own message schemas, read from its jar, and a codec that needs nothing else
    batches           record batches, right and wrong in every way that a producer can get them wrong
    sides, symbols    the two brokers; what each names in its own way (topic ids, member ids, sessions) gets one name
    shapes            requests that mean something, for every API; mutation makes them borderline
    stories           sequences of requests, each a function of its seed
    compare, allowed  what differs, and what may: every entry has its reason
    runner            runs stories until there were enough pairs; `python -m compat_tests.differential --help`

A story has topics and groups of its own and ends at its first difference: what follows would only repeat it.
"""
