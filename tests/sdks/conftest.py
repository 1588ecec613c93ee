from tests.core.conftest import host, patient

__all__ = ["host", "patient"]
