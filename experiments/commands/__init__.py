"""Commands: one module for each subcommand, its flags and what it does."""
