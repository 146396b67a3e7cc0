"""`penstock eval`: runs a data set against a workflow or an agent, and compares what came out with what is expected.

`dataset` reads the cases, `running` makes a durable run of each, `expectations` compares (`similarity`, `judging`),
`report` counts and compares with an earlier version, `page` and `printing` show it. `places` says where the runs are:
in one file of the evaluation's own (`opening`), which changes nothing that a server keeps, or on a `server`. `scripted`
stands in for models and other activities in a file. Read `command` first.
"""
