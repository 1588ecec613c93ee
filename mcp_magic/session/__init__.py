"""One session with a server: transports, requests, reconnecting, and what a server notifies."""
