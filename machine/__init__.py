"""The machine under a process of Selat: access to its sockets and files. It imports no other package of Selat."""
