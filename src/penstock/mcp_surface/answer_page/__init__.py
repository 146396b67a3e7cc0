"""The web page on which a person answers a question.

It calls the gate and does not import the SDK. Read `page` first.
"""
