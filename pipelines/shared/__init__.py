"""What every job is made of: its options, its stream, its cluster; `spark/` starts it, `files/` are what it keeps."""
