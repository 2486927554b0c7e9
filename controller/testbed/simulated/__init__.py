"""A whole deployment in virtual time: real agents, the real control loop, faults, and what must hold all the same."""
