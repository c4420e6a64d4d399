// Package apitest contains helpers for tests that serve or use the admin API.
package apitest

import "shardway/admin/api"

// SetOf returns the services that a fake node implements. The others are nil.
func SetOf(c api.Cluster) api.Set {
	s := api.Set{Cluster: c}
	s.Checkup, _ = c.(api.CheckupService)
	s.Drain, _ = c.(api.DrainService)
	s.History, _ = c.(api.HistoryService)
	s.Hot, _ = c.(api.HotService)
	s.Keys, _ = c.(api.KeyHasher)
	s.Owned, _ = c.(api.OwnedService)
	s.Plan, _ = c.(api.PlanService)
	s.Policy, _ = c.(api.PolicyService)
	s.Rotation, _ = c.(api.RotationService)
	s.Running, _ = c.(api.RunningService)
	s.Settings, _ = c.(api.SettingsService)
	s.Upgrade, _ = c.(api.UpgradeService)
	s.WebSockets, _ = c.(api.WebSocketService)
	return s
}
