"""Writers, one file a format. A new format is one module with a writer and a line in WRITERS."""
