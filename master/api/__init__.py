"""The gRPC services, and what stands around each call. No other room of the master imports it."""
