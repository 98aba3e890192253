"""The operator: makes of the cluster what TrainingMonitors and the install's values ask for, and says how it stands."""
