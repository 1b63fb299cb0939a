"""Transport of the server: gRPC over TLS, the methods of its services, and injected faults."""
