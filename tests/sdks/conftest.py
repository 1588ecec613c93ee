from tests.core.conftest import host

__all__ = ["host"]
