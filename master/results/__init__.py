"""Results on their way from the gateway's agent to a client.

pull    one call of ExchangeService.Pull: pieces -> checked epochs
decode  an epoch's payload -> an Arrow IPC stream that stands by itself
fetch   all result channels of a query, over breaks of the connection, until the query is over
"""
