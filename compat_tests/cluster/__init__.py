"""What only a cluster of several brokers can show."""
