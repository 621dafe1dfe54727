"""gRPC in memory, under the generated stubs and servicers: links with latency and bandwidth that fail as asked."""
