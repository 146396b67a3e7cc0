"""The agent profile on HTTP: apps, their policies and grants, and the demo ledger."""

__all__ = [
    "APP_DAYS_MAX",
    "APP_EXPORT_ROWS_DEFAULT",
    "APP_EXPORT_ROWS_MAX",
    "APP_JUSTIFICATION_CHARACTERS_MAX",
    "APP_LIST_MAX",
    "APP_PAGE_MAX",
    "APP_SCOPES_MAX",
]

# Scopes of one app, as the profile has it; more are a mistake.
APP_SCOPES_MAX = 60
# Why an agent wants something done: a few sentences that an approver reads.
APP_JUSTIFICATION_CHARACTERS_MAX = 2_000
# Ids or addresses in one list of a policy, as the profile has it.
APP_LIST_MAX = 500
# Ten years, as the profile has it; a longer window is none.
APP_DAYS_MAX = 3_650
# Rows of an export for an app whose grant does not say.
APP_EXPORT_ROWS_DEFAULT = 1_000
# More rows than this are not an export for a model but a copy.
APP_EXPORT_ROWS_MAX = 5_000
# Transactions in one page, as the profile has it.
APP_PAGE_MAX = 200
