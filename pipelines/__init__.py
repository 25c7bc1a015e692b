"""PySpark jobs on Spark's own Kafka source and sink: `barnabas pipeline NAME`, or `spark-submit pipelines/NAME.py`.

The modules here are the jobs; what they are made of lies in the folders. Nothing knows the broker: the jobs work with
any cluster that speaks Kafka's protocol. No Python runs on executors, so a Spark cluster needs nothing but Spark and
the connector.
"""
