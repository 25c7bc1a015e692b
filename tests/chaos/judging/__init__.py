"""What is judged beside the history of clients: compacted topics, and the replicas on the disks."""
