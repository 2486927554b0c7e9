"""The parts of strategy `weighted`: what brokers are limited in, which bundles go first, and where to."""
