"""What jobs read and write on file systems: the folder that a job commits to, and Spark's notes in a checkpoint."""
