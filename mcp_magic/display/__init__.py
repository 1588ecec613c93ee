"""What values look like: text, JSON, tables, listings and differences, as HTML and as plain text."""
