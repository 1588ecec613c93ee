"""mcp_magic under Pyodide, with JupyterLite's kernel, in Node: `make lite`."""
