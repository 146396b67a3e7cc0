"""`penstock eval`: runs a data set against a workflow or an agent, and compares what came out with what is expected.

`dataset` reads the cases, `running` makes a durable run of each, `expectations` compares (`similarity`, `judging`),
`report` counts and compares with an earlier version, `page` and `printing` show it. `scripted` stands in for models and
other activities. An evaluation is one file of its own, so it changes nothing that a server keeps. Read `command` first.
"""
