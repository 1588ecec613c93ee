"""Requests in flight: what is known of one, what it waits for, and when it is sent again."""
