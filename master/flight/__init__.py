"""The endpoint for clients of Arrow Flight SQL (ADBC, JDBC and others).

server      serves it at a port of its own
service     the methods of the protocol
commands    the commands that clients send, by their names in the protocol
handles     statements as tickets and handles: nothing of a client is kept between its calls
executions  what statements give: their columns, and then their rows
metadata    what there is: relations, kinds of them, and what the server can do
messages    Arrow as messages of the protocol, and back
"""
