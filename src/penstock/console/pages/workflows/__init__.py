"""Pages about workflows and agents. Read `showing` first; `starting` has the form that is made from a schema."""
