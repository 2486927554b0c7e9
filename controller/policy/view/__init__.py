"""What a strategy sees: the stored frame, the snapshot of arrays, costs of bundles, who has told enough, quotas."""
