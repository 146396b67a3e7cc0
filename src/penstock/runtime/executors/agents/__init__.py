"""`agent_delegate`: gives tasks to agents over the protocol each of them speaks. Read `delegate` first."""
