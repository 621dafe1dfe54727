"""The central job manager: takes SQL, keeps the catalog, says what each site is to run, and answers for the results.

    client --Execute--> statements --draft, check at a site, place--> queries --assignments--> sites
    site   --Report---> sites ------> progress -----------------------> queries --WatchQuery--> client
    client --FetchResults--> results --Pull--> the gateway's agent

Everything accepted is in the store before the answer. Running queries do not need the master: agents keep their
assignment. `api` is the gRPC edge for clients; messages go no further than it and `convert`. Words: docs/glossary.md.
"""

from wire import tls13

tls13.require()
