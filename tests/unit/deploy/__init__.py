"""The recipes of `conf/deploy`: they agree with each other, with the commands, and with what they are written for."""
