"""jq expressions: their text, their results, and the processes that evaluate them."""

__all__ = [
    "JQ_CACHE_ENTRIES_MAX",
    "JQ_COMPILE_MS_MAX",
    "JQ_CONSTANT_CHARACTERS_MAX",
    "JQ_IN_PROCESS_BYTES_MAX",
    "JQ_IN_PROCESS_CHARACTERS_MAX",
    "JQ_OUTPUTS_MAX",
    "JQ_OUTPUT_BYTES_MAX",
    "JQ_PROGRAM_CHARACTERS_MAX",
    "JQ_TIME_BUDGET_MS",
    "JQ_WORKERS_MAX",
    "JQ_WORKERS_PER_HOLDER",
    "JQ_WORKER_MEMORY_BYTES_MAX",
    "JQ_WORKER_START_MS_MAX",
    "SLOW_WORKFLOWS_REMEMBERED",
    "WORKER_CLOCK_FACTOR_MAX",
]

# An expression is one line or a short paragraph; longer text belongs in a step.
JQ_PROGRAM_CHARACTERS_MAX = 16_384
# Text that libjq would build from constants while compiling (`"=" * 80`); more is an attempt to exhaust memory.
JQ_CONSTANT_CHARACTERS_MAX = 65_536
# Compiled programs kept; a busy server has hundreds of definitions with a few dozen expressions each.
JQ_CACHE_ENTRIES_MAX = 4_096
# A generator that yields more than this is a mistake; the list would not be usable as state.
JQ_OUTPUTS_MAX = 10_000
# All outputs of one evaluation together; the same order as the largest state worth keeping in a history row.
JQ_OUTPUT_BYTES_MAX = 1_048_576
# Processor time one guarded evaluation may take before its worker is killed.
JQ_TIME_BUDGET_MS = 1_000
# By the clock a worker may take this many times its budget of processor time: where all cores are busy it waits for
# one, and a run must not fail because the machine has other work.
WORKER_CLOCK_FACTOR_MAX = 10
# Roots up to this size are evaluated inside the server when the program is bounded: at about 10 µs per element and
# step, even an unlucky program then blocks it for a fraction of a second.
JQ_IN_PROCESS_BYTES_MAX = 65_536
# Address space of a jq worker process, the interpreter included.
JQ_WORKER_MEMORY_BYTES_MAX = 536_870_912
# Guarded evaluations at once: one that uses up its time must not hold up the next run's.
JQ_WORKERS_MAX = 8
# Of these, for one tenant or one caller: whoever asks for endless ones must not make others wait.
JQ_WORKERS_PER_HOLDER = 4
# Workflows known to have expressions that need a worker; forgetting one costs an attempt that is given up.
SLOW_WORKFLOWS_REMEMBERED = 10_000
# Starting a worker loads an interpreter and libjq; even a busy machine does it in a second or two.
JQ_WORKER_START_MS_MAX = 20_000
# Programs up to this length are compiled inside the server; libjq takes up to 20 ms for them, and ever more per
# character for longer ones, while nothing else moves.
JQ_IN_PROCESS_CHARACTERS_MAX = 1_000
# How long compiling a longer one may take, beside its evaluation: the longest take a second, on a busy machine more.
JQ_COMPILE_MS_MAX = 4_000
