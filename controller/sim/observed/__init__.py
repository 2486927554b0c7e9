"""A simulated Pulsar with the real step, the real observer and the real execution of orders."""
