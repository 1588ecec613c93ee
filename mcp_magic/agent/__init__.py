"""The agent: models, graph, runs and transcript, without widgets."""
