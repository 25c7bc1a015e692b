"""Transactions: with every client, with Kafka's own tools, and with frameworks that build on them."""
