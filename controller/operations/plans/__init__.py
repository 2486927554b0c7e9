"""Plans that waited for an operator: `kept_plans` says what became of them, by the journal; `plan_words` in words."""
