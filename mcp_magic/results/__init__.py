"""What servers answer, as Python values that display themselves. No I/O, nothing of a session."""
