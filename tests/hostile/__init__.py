"""Attacks of servers, files and models, each with a bound on its time and memory."""
