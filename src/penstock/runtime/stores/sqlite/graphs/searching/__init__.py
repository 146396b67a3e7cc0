"""Text indexes of graphs: which rows have which words, and how many words all texts of a view have.

`indexes` makes and builds them; `corpora` counts. What is indexed and asked is in `penstock.graph.text_index`, and the
statements that use them come from `penstock.graph.sql.searches`. Read `indexes` first.
"""
