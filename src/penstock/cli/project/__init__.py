"""`penstock init`: a project folder with a workflow that runs."""
