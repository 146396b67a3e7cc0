"""What a stranger needs from nothing to an approved call: commands, seconds, packages, megabytes."""
