"""Starts Spark for a job: what has to be there first, the connector's jars, the JVM, the session and its log."""
