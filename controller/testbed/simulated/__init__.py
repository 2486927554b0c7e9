"""A whole deployment in virtual time: real agents, brokers, controllers and clients, faults, and what must hold."""
