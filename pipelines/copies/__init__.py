"""What `mirror` and `restore` are made of: records written to topics, each once and in order."""
