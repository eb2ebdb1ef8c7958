"""What a compiled training step does, read from its scheduled HLO text."""
