"""The process itself: its event loop, garbage collection, metrics, trusted certificates and disk."""

__all__ = [
    "DISK_FREE_BYTES_LOW",
    "DISK_FREE_BYTES_MIN",
    "DOCTOR_ANSWER_BYTES_MAX",
    "DOCTOR_CONNECT_SECONDS_MAX",
    "FILES_LOOK_SECONDS",
    "FILES_RESTART_SECONDS",
    "FILES_RETRY_SECONDS_MAX",
    "FILES_SETTLE_LOOKS_MAX",
    "FILES_SETTLE_SECONDS",
    "FILES_SILENT_SECONDS",
    "GC_NEW_OBJECTS",
    "LOOP_NOTE_SECONDS",
    "LOOP_STALL_SECONDS",
    "METRIC_SERIES_MAX",
    "OPERATOR_FILE_BYTES_MAX",
    "TRUST_KEPT_SECONDS",
]

# New objects before a server looks for garbage among them (Python: 700): its runs make hardly any cycles, and what
# there is meanwhile takes a few megabytes.
GC_NEW_OBJECTS = 10_000
# From here on a pause of the event loop is a stall, which is measured and logged: people notice a tenth of a second.
LOOP_STALL_SECONDS = 0.1
# How often the loop notes that it turns; a stall is measured to that precision.
LOOP_NOTE_SECONDS = 0.02
# Label sets of one family of metrics; routes and operations are a few hundred, and more would be a leak.
METRIC_SERIES_MAX = 5_000
# How long certificates that the machine trusts are kept in memory; who replaces them need not start the server again.
TRUST_KEPT_SECONDS = 3_600.0
# How long `penstock server doctor` waits for a server to take a connection; a person waits beside it.
DOCTOR_CONNECT_SECONDS_MAX = 3.0
# How much of an answer it reads: a server says in far less how it is.
DOCTOR_ANSWER_BYTES_MAX = 64 * 1024
# Below this much free disk the log of one burst of writes may not fit any more.
DISK_FREE_BYTES_MIN = 128 * 1024 * 1024
# Below this much somebody should look soon: a backup beside the database may not fit.
DISK_FREE_BYTES_LOW = 1024 * 1024 * 1024
FILES_LOOK_SECONDS = 2.0
"""How often watched files are read: a change is in force before somebody tries it."""
FILES_SETTLE_SECONDS = 0.25
"""How long files must stay the same before a change counts. An editor replaces a file in far less."""
FILES_SETTLE_LOOKS_MAX = 20
"""Looks at files that change all the time before they are taken as they are: five seconds."""
FILES_RETRY_SECONDS_MAX = 60.0
"""The longest pause between attempts to take up files that failed for another reason than their contents."""
FILES_RESTART_SECONDS = 1.0
"""The pause before watching begins again after it ended unexpectedly."""
FILES_SILENT_SECONDS = 60.0
"""After this time without a look, the watcher counts as stuck: a file system may block for as long as it likes."""
OPERATOR_FILE_BYTES_MAX = 4 * 1024 * 1024
"""The largest file that is read: four times the largest document."""
