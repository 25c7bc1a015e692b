"""What goes wrong in a run: drawn as a plan, and done to processes, disks and links."""
