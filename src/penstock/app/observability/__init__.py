"""OpenTelemetry: traces, metrics and logs for a collector, if the usual environment variables ask for them.

Nothing here is imported or done unless they do. `choices` reads the variables, `traced` makes spans around calls and
activities, `opened` puts both together; `otlp` is the only module that imports the OpenTelemetry libraries, which the
extra `otel` installs. Read `opened` first.
"""
