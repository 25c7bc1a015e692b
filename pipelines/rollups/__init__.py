"""What `rollup` is made of: events, windows, where they go, and what could not be used."""
