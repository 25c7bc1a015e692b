"""What the tests stand on: the clients and how they are driven, what is tested of each, and what is not served."""
