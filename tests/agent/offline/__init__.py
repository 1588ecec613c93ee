"""The offline model: requests, the tools that they are about, and how it is judged."""
