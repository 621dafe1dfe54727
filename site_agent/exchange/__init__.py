"""Exchange: channels over the WAN. One gRPC call per channel and reader, served here, made by the router.

    log --> sender (selection, credit, pieces) --PullResponse--> assembler (checksum) --> the reader's own log
        <-------------- credit, acknowledgements --PullRequest--

`server` is the service, `sender` one call of it, `outbound` what readers have stored of all calls and how fast,
`assembler` the receiving end, `status` how errors travel, `convert` messages from and to values.
"""
