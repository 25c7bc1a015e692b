"""Kafka's own command-line tools, with the same arguments against Barnabas and against Apache Kafka, compared.

    invocation        one call of a tool, and what may differ
    data_tables       topics, records, groups, logs
    cluster_tables    configurations, the cluster, transactions, measurements
    runs              the tools against one broker; what they say without what is a broker's own

What one row of a table writes the later ones see: all of them run, in their order, before anything is compared.
"""
