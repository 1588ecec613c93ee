"""Configuration of servers: specs, targets, config files of hosts, declarations. Starts nothing."""
