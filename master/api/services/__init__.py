"""The gRPC edge: each method decodes, makes one call, and encodes. An interceptor turns errors into statuses."""
