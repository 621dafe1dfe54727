"""Who may do what: roles, a table of rights per gRPC method and per statement, grants on relations, limits. Pure."""
