"""The host of runs: what it keeps in memory, does at once, claims and watches."""

__all__ = [
    "ABANDONED_PICK_UPS_MAX",
    "ABANDONED_RUNS_PER_LOOK",
    "ACTIVITIES_AT_ONCE_MAX",
    "CLAIM_BATCH_MAX",
    "CLOCK_SETTLES_MS",
    "CLOCK_STEP_MS_MAX",
    "DECIDED_AT_ONCE",
    "ENDED_RUNS_MAX",
    "ENDED_RUN_BYTES_MAX",
    "FOLDED_AT_ONCE",
    "FOREIGN_CHANGE_POLL_SECONDS",
    "LIVE_RUNS_BYTES_MAX",
    "LIVE_RUNS_MAX",
    "LOG_LINE_CHARACTERS_MAX",
    "PROGRESS_BUFFERED_MAX",
    "REPORTED_ATTEMPTS_KEPT_PER_RUN",
    "REPORTING_RUNS_KEPT",
    "REPORT_CHARACTERS_KEPT_MAX",
    "REPORT_LINES_KEPT_PER_RUN",
    "TIMERS_AHEAD_MAX",
    "VALUES_AT_ONCE",
    "WATCHED_RUNS_PER_READ",
    "WATCHED_RUNS_PER_SECOND",
    "WORKER_LEASE_MARGIN_MS",
    "WORKER_LEASE_MS",
]

# Runs whose state is kept in memory; others are read again when something happens to them.
LIVE_RUNS_MAX = 1_000
# What these states may take together: a thousand ordinary ones take a tenth of it, and a hundred with a megabyte each
# fit. Runs that somebody is busy with are kept in any case.
LIVE_RUNS_BYTES_MAX = 134_217_728
# Runs whose last state is kept for a while after they ended, because whoever called them reads it next; and how large
# the history of such a run may be. Together they take a few megabytes.
ENDED_RUNS_MAX = 128
ENDED_RUN_BYTES_MAX = 32_768
# Records of a decision that is made between two turns of the event loop; one that makes more is made in a thread.
DECIDED_AT_ONCE = 100
# Values in a request, or in what is given to a run, that are looked through between two turns of the event loop; more
# are looked through in a thread. About a millisecond for each look.
VALUES_AT_ONCE = 10_000
# Records (and nodes, where those are shown) that are folded into a state in one go; more are folded with pauses for
# others. About five milliseconds.
FOLDED_AT_ONCE = 500
# How often a waiting reader looks for changes that another process made.
FOREIGN_CHANGE_POLL_SECONDS = 0.1
# Runs whose sequence numbers are looked up per second on behalf of waiters: some hundredths of a processor.
WATCHED_RUNS_PER_SECOND = 2_000
# Runs looked up in one read, so that a reader's thread is free again in a moment.
WATCHED_RUNS_PER_READ = 500
# News about the progress of activities that wait for one listener; older ones are about a moment that is over.
PROGRESS_BUFFERED_MAX = 100
# Characters of a line that a step writes into its log, for those who follow the run; people read no longer ones.
LOG_LINE_CHARACTERS_MAX = 4_000
# What a process keeps in its memory of the reports of activities, for those who look at a run: 200 runs with 100 lines
# and 20 attempts of 500 characters each are 12 MB at most.
REPORTING_RUNS_KEPT = 200
REPORT_LINES_KEPT_PER_RUN = 100
REPORTED_ATTEMPTS_KEPT_PER_RUN = 20
REPORT_CHARACTERS_KEPT_MAX = 500
# Activities one process performs at a time.
ACTIVITIES_AT_ONCE_MAX = 256
# By how much the time of day may move against the machine's steady clock and be followed at once: a correction.
CLOCK_STEP_MS_MAX = 2_000
# How long a time of day that jumped must stay where it is until it is believed: longer than a mistake lasts that
# somebody mends at once, shorter than anybody waits for a schedule after setting the clock.
CLOCK_SETTLES_MS = 30_000
# How long a process must give no sign of life until others take over its runs.
WORKER_LEASE_MS = 5_000
# By how much sooner a process doubts its own lease: what may pass between that look and an effect that others see.
WORKER_LEASE_MARGIN_MS = 1_000
# Runs that are looked after because a clock that was ahead put their timers too late; their ids are kept in memory.
TIMERS_AHEAD_MAX = 100_000
# Runs of this process that the watchdog compares with what is under way at each look, every lease's third: a few
# milliseconds of work, and ten thousand runs in less than a minute.
ABANDONED_RUNS_PER_LOOK = 500
# How often a run that does not move is gone on with before it counts as stuck: what failed thrice fails again.
ABANDONED_PICK_UPS_MAX = 3
# Runs claimed or woken in one go; more are found in the next round.
CLAIM_BATCH_MAX = 200
