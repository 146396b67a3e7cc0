"""Files that the operator names in the settings, and that a running server reads again when they change.

`named` finds and reads them, `watcher` notices changes and survives whatever happens to the files, `policies`, `graphs`
and `workflows` put their contents in force. It may touch the file system and make internal calls. Read `watcher` first.
"""
