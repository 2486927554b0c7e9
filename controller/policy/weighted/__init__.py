"""The public name of the providers of strategy `weighted`."""
