"""What every job is made of: its options, its session, its stream, the cluster and the files it reaches."""
