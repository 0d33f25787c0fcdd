"""The parts of `recall_quality.py` and `recall_speed.py`, one question a module."""
