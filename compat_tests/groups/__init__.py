"""Groups: their members, their offsets, and what an administrator does with them."""
