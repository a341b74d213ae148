"""What operations on whole tables share: where their tasks run, and the live files they work on."""
