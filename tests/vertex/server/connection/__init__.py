"""How clients reach the server: gRPC over TLS, the methods of its services, and what goes wrong on the way."""
