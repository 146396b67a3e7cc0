"""Types of answers, one module for each resource; `shared` has those of several. Both kinds of client use them."""
