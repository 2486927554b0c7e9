"""Settings of the control step and the policies, as plain values. Rounds store them: never rename a field."""
