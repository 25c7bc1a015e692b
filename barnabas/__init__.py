"""A broker that speaks Apache Kafka's wire protocol."""

from barnabas.base.version import VERSION

__version__ = VERSION
