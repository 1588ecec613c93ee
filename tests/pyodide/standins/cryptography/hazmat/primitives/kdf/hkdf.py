from typing import Any


class HKDF:
    def __init__(self, *parts: Any, **named: Any) -> None: ...

    def derive(self, key: bytes) -> bytes:
        return key[:32].ljust(32, b"\0")
