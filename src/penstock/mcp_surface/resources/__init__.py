"""Resources, prompts and completion. Read `contents` first; `methods` translates from and to the SDK."""
