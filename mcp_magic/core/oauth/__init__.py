"""Log-ins to servers: the SDK's provider, who asks the person, where tokens are kept, and how a log-in ends."""

from __future__ import annotations
