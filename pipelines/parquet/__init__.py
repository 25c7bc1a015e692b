"""What `archive` and `table` are made of: Parquet files and the position in the topics, committed in one step."""
