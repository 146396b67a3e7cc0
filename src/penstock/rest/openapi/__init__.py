"""The OpenAPI document, made from the catalogue, and the reference page for people. Read `document` first."""
