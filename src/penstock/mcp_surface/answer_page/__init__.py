"""The web page on which a person answers a question. Read `page` first."""
