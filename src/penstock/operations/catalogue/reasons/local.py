"""Codes that no operation returns: of a process that starts, of the command line, of the console, of imports.

Above it: `reasons`. Below it: `base.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.base.errors import Conflict, Denied, NotFound, Reason, Rejected, Unavailable

__all__ = ["COMMANDS", "CONSOLE", "IMPORTS", "STARTING", "STEPS"]

STARTING: Mapping[str, Reason] = {
    "INVALID_SETTINGS": Reason(
        Rejected,
        "The settings have mistakes; the message lists all of them.",
        "Correct them; `penstock config validate` checks again.",
    ),
    "ADDRESS_UNAVAILABLE": Reason(
        Unavailable,
        "The server cannot listen at this address.",
        "Choose another port with `--port` or `server.port`, or stop the program that uses it.",
    ),
    "EXTRA_NOT_INSTALLED": Reason(
        Unavailable,
        "A configured feature needs a package that is not installed.",
        "Install the extra that the message names.",
    ),
    "UNKNOWN_EXECUTOR": Reason(Rejected, "No executor has this name.", "Choose an executor that the message lists."),
    "OTEL_NOT_SUPPORTED": Reason(
        Rejected,
        "An `OTEL_` variable has a value that is not supported.",
        "Set the variable to a value that the message lists.",
    ),
    "ROOT_NOT_FOUND": Reason(
        Rejected,
        "A folder in `roots` of an MCP server does not exist.",
        "Correct the path in `mcp_servers`, or create the folder.",
    ),
    "SECRET_FOLDER_MISSING": Reason(
        Rejected, "The folder of secrets does not exist.", "Correct the path after `--secret-file`."
    ),
    "SECRET_NOT_SET": Reason(
        Unavailable, "A secret has no value.", "Set the environment variable that the hint names, or `secrets`."
    ),
    "SECRET_UNREADABLE": Reason(
        Unavailable, "A secret cannot be read from its source.", "Check the entry of the secret in `secrets`."
    ),
    "SECRET_ANSWER_UNREADABLE": Reason(
        Unavailable,
        "A secret answer was encrypted with a key that this process does not have.",
        "Ask the question again in a new run.",
    ),
    "SECRET_IN_SETTINGS": Reason(
        Rejected,
        "A secret is written into a file of settings.",
        "Name an environment variable instead, as the hint shows.",
    ),
    "PEPPER_MISSING": Reason(
        Unavailable,
        "The file with the server's secret is missing, so no key can be checked.",
        "Restore the file from a backup, or name another source in `server.secret`.",
    ),
    "PEPPER_MISMATCH": Reason(
        Rejected,
        "The server's secret is not the one that the keys were made with.",
        "Restore the secret that belongs to this store, or name its source in `server.secret`.",
    ),
    "PEPPER_EXPOSED": Reason(
        Rejected, "Other users can read the file with the server's secret.", "Run `chmod 600` on the file."
    ),
    "PEPPER_INVALID": Reason(
        Rejected,
        "The file, or the source in `server.secret`, does not contain a server's secret.",
        "Restore the secret from a backup, or make a new one of 64 hexadecimal digits with `openssl rand -hex 32`.",
    ),
    "PEPPER_UNREADABLE": Reason(
        Unavailable,
        "The server's secret cannot be read from its source, or its file cannot be created.",
        "Correct `server.secret` as the message says, or make the folder of the file writable.",
    ),
    "KEY_FILE_EXISTS": Reason(
        Rejected, "A key file exists at this path.", "Choose another name; key files are never overwritten."
    ),
    "KEY_FILE_EXPOSED": Reason(Rejected, "Other users can read the private key.", "Run `chmod 600` on the file."),
    "KEY_FILE_INVALID": Reason(
        Rejected,
        "The file does not contain a key for signing workflows.",
        "Create a key with `penstock workflow sign --new-key FILE`.",
    ),
    "KEY_FILE_UNREADABLE": Reason(Unavailable, "The key file cannot be read.", "Check the path and its permissions."),
    "TIMESTAMP_CERTIFICATE_INVALID": Reason(
        Rejected,
        "The file does not contain certificates of a timestamp authority.",
        "Set `audit.checkpoints.timestamp.certificates` to a PEM file.",
    ),
    "WORKFLOWS_NOT_FOUND": Reason(
        Rejected, "No workflow file matches the pattern.", "Correct `workflows.paths`, or the path of the command."
    ),
}

STEPS: Mapping[str, Reason] = {
    "STEPS_NOT_FOUND": Reason(
        Rejected,
        "The step module does not exist, or has no steps.",
        "Correct the name after `--steps` or in `steps.modules`.",
    ),
    "STEPS_BROKEN": Reason(
        Rejected,
        "The step module fails when it is imported.",
        "Correct the module; import it in Python to see the traceback.",
    ),
    "STEPS_NAME_TAKEN": Reason(
        Rejected, "Another module has the name of the step file.", "Rename the file, or put it into a package."
    ),
    "STEP_INVALID": Reason(
        Rejected,
        "The function cannot be a step; the message says why.",
        "Change the function's signature or its `@step` options.",
    ),
    "STEP_NAME_TAKEN": Reason(
        Conflict, "Two steps have the same name.", "Give one of them another name with `@step(name=...)`."
    ),
    "NO_WORKFLOW": Reason(Rejected, "The tester was given no workflow.", "Pass a file, a text or a document."),
}

COMMANDS: Mapping[str, Reason] = {
    "FILE_UNREADABLE": Reason(Rejected, "The file cannot be read.", "Check the path and its permissions."),
    "FILE_UNWRITABLE": Reason(Rejected, "The file cannot be written.", "Choose another file with `--out`."),
    "FOLDER_NOT_EMPTY": Reason(Rejected, "The folder already contains files.", "Choose a new folder."),
    "FOLDER_UNUSABLE": Reason(Rejected, "The folder cannot be created or written.", "Choose another folder."),
    "EXPORT_SCHEMA_CHANGED": Reason(
        Rejected, "The graph's schema changed during the export.", "Run `penstock graph export` again."
    ),
    "PROJECT_EXISTS": Reason(
        Conflict,
        "The folder already contains a project.",
        "Choose another folder, or change the project that is there.",
    ),
    "PROJECT_UNWRITABLE": Reason(
        Unavailable, "The project cannot be written to this folder.", "Choose a folder that you can write to."
    ),
    "PROFILE_NOT_FOUND": Reason(
        NotFound, "No profile has this name.", "List the profiles with `penstock config profile list`."
    ),
    "PROFILE_EXISTS": Reason(Rejected, "A profile with this name exists.", "Replace it with `--replace`."),
    "PROFILE_INVALID": Reason(
        Rejected, "The profile has mistakes.", "Correct it with `penstock config profile add --replace`."
    ),
    "PROFILES_UNREADABLE": Reason(
        Rejected, "The file of profiles cannot be read or written.", "Check the permissions of the file."
    ),
}

IMPORTS: Mapping[str, Reason] = {
    "OPENAPI_INVALID": Reason(
        Rejected, "The file is not an OpenAPI document.", "Pass an OpenAPI document in JSON or YAML."
    ),
    "OPENAPI_VERSION": Reason(
        Rejected,
        "The version of OpenAPI is not supported.",
        "Convert the document to OpenAPI 3.0 or 3.1.",
    ),
    "OPENAPI_TOO_LARGE": Reason(Rejected, "The OpenAPI document is too large.", "Import a part of the API."),
    "OPENAPI_NAMES": Reason(
        Rejected,
        "A name for a tool or an API is taken, or is not valid.",
        "Choose another one with `--name`, or with `name` in the overrides.",
    ),
    "OPENAPI_NOTHING_CHOSEN": Reason(
        Rejected, "No operation of the API is selected.", "List the operations with `--preview`."
    ),
    "OPENAPI_FILE_EXISTS": Reason(
        Rejected, "The file for the document exists.", "Remove it, or choose another `--name`."
    ),
    "OPENAPI_OVERRIDES_INVALID": Reason(
        Rejected, "The overrides of an API cannot be used.", "Correct the file that `apis.NAME.overrides` names."
    ),
    "OPENAPI_OVERRIDE_UNKNOWN": Reason(
        Rejected,
        "An override names an operation that the API does not have.",
        "Write an `operationId`, or a method and a path, such as `GET /orders`.",
    ),
}

CONSOLE: Mapping[str, Reason] = {
    "SIGNED_OUT": Reason(Denied, "You are signed out, so nothing was sent.", "Sign in again."),
    "SIGN_IN_REFUSED": Reason(
        Denied, "The issuer did not sign you in.", "Sign in again, or choose another way to sign in."
    ),
    "KEY_NEEDED": Reason(Denied, "The console accepts only keys and tokens.", "Sign in with a key of this server."),
    "LINK_INVALID": Reason(
        Denied,
        "The sign-in link was used already, or has expired.",
        "Sign in with a key, or start the server again for a new link.",
    ),
    "LOGOUT_TOKEN_INVALID": Reason(
        Denied, "The issuer's logout token is not valid.", "Check the issuer's entry in `auth.oauth.issuers`."
    ),
    "FORM_OUTDATED": Reason(
        Conflict, "The form belongs to an earlier session or state.", "Check what you entered, and send it again."
    ),
    "ACTION_UNKNOWN": Reason(Rejected, "The page has no such button.", "Open the page again."),
    "STATUS_UNKNOWN": Reason(Rejected, "The filter has no such choice.", "Choose one that the hint lists."),
    "FORMAT_UNKNOWN": Reason(Rejected, "The export has no such format.", "Choose one that the hint lists."),
    "PERIOD_UNKNOWN": Reason(Rejected, "The filter has no such period.", "Choose one that the hint lists."),
    "TIME_UNREADABLE": Reason(Rejected, "The text is not a time.", "Write it like `2026-01-31T09:00`."),
    "FORM_UNREADABLE": Reason(
        Rejected, "A field of the form cannot be read.", "Correct the field, and send the form again."
    ),
    "NOTHING_CHOSEN": Reason(Rejected, "No run is selected.", "Go back and select runs."),
    "TOO_MANY_CHOSEN": Reason(Rejected, "Too many runs are selected.", "Select fewer runs, and repeat for the others."),
    "TOOL_NEEDED": Reason(Rejected, "The form names no tool.", "Open the page again, and accept one tool at a time."),
    "RECORD_NOT_FOUND": Reason(
        NotFound, "The run has no such record.", "Open the history of the run, and choose a record."
    ),
    "VISIT_NOT_FOUND": Reason(NotFound, "The run did not visit this node then.", "Open the run, and choose a step."),
    "VALUE_NOT_FOUND": Reason(NotFound, "The page has no such value.", "Open the page again."),
    "STREAM_NOT_SHOWN": Reason(Rejected, "A page cannot show a stream.", "Call the operation over REST or MCP."),
    "STREAM_EXPECTED": Reason(
        Rejected, "The operation does not return a stream.", "Call the operation over REST or MCP."
    ),
}
