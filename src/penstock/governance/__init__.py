"""Pure rules of who may do what: decisions, limits, drafts and approvals."""
