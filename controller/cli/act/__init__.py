"""Commands that ask the controller for something and wait for the journal's answer."""
