"""JSON Schema without I/O: fields, arguments from text and objects, validation, signatures."""
