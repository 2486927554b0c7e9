"""Plans that waited for an operator: `kept_plans` says what became of them, `plan_end` when; `plan_words` in words."""
