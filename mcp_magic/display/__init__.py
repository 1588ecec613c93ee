"""How values are displayed: text, JSON, tables, listings and differences, as HTML and as plain text."""
