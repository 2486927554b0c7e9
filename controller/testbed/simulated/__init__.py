"""A whole deployment in one process and in virtual time: real agents, the real control loop, faults, and what must hold."""
