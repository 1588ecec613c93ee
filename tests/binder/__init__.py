"""What repo2docker would do with `binder/`, without Docker: `make binder`."""
