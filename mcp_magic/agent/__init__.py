"""The agent: models, graph, runs, transcript; no widgets."""
