"""One tiny server under each generation of the SDKs, and what a host gets of it."""
