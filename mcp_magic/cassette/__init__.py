"""Cassettes: recorded sessions that replay without their servers."""
