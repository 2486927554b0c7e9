"""Hand-overs of one session. In: journal entries and `released` events. Out: actions on the runtime, answers."""
