"""Report: one page, tables and pictures of what was found."""
