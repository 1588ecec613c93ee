"""The offline model: a chat model without weights, for tutorials and tests.

`model` is the chat model, `planning` what comes next in a conversation, `choosing` which tool, `filling` with which
arguments, `answering` what is said of the results. The rest is what those need to know of English (`words`,
`mentions`, `moments`, `zones`, `clauses`) and of tools (`tools`, `ranking`, `purposes`). No request and no server is
known by name: all comes from the definitions of the tools and from the words of the request.
"""

from __future__ import annotations

from mcp_magic.agent.offline.model import OfflineModel

__all__ = ["OfflineModel"]
