"""One module for each thing that a history is checked for. `reads.py`, `poll_order.py` and `commits.py` judge as the
events come; `sends.py` and `endings.py` when all of them are known."""
