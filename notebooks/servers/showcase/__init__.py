"""The parts of showcase_server.py, one subject a module: each puts its tools on the server of `showcase.app`."""
