"""The web console: pages on which people see runs, answer questions and decide about calls that wait.

    surface        the routes, and what every page has in common: who visits, what is refused, how errors look
    sessions/      how a browser stays signed in
    forms          what a browser sent, and whether it came from a page of ours
    rendering      templates, headers, and how times and values are shown
    assets         stylesheet and scripts, at addresses that change with their contents
    events         the stream that says which runs moved
    pages/         one module for each kind of page
    templates/     their HTML
    static/        the stylesheet, our scripts, and `vendor/` with those of others

A page decides nothing: everything it shows or does is an operation through the gate, as the principal that signed in.
It imports only `operations`, `asgi`, `html_form` and `base`. Read `surface` first.
"""
