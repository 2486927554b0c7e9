"""What the step and the policies are told, as plain values. Rounds store them: fields are never renamed."""
