"""Where servers are: specs, targets, the config files of hosts, declarations. Nothing is ever started here."""
