"""The gRPC edge: each method decodes, makes one call, and encodes. The interceptor turns errors into statuses."""
