"""The gRPC services, and the interceptors around each call. No other room of the master imports this one."""
