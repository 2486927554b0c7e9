"""The hand-over of one session. In: journal entries and `released` events. Out: actions on the runtime, answers."""
