"""What a client can learn of replicas and do about them: how far each has come, who leads, and where they are."""
