"""One session with a server: its transport, requests, reconnecting and notifications."""
