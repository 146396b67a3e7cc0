"""Resources, prompts and completion. Read `contents` first."""
