"""Files that one broker wrote and the other serves."""
