"""Makes a history: puts a load on a cluster with confluent-kafka and writes down what its clients do and are told.

The only part of the verification with clients, threads and a clock.
"""
