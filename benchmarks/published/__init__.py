"""V01 to V33: inputs that other balancers got wrong in public, and the builder of the small clusters they use."""
