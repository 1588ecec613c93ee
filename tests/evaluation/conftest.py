from tests.support.shopping import host, shop

__all__ = ["host", "shop"]
