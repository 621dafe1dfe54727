"""The machine under a process of Selat: who can reach its sockets, and who can read its files. No imports of ours."""
