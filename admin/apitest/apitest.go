// Package apitest contains helpers for tests that serve or use the admin API.
package apitest

import "shardway/admin/api"

// SetOf returns the services that a fake node implements. The others are nil.
func SetOf(cluster api.Cluster) api.Set {
	services := api.Set{Cluster: cluster}
	services.Checkup, _ = cluster.(api.CheckupService)
	services.Drain, _ = cluster.(api.DrainService)
	services.History, _ = cluster.(api.HistoryService)
	services.Hot, _ = cluster.(api.HotService)
	services.Joins, _ = cluster.(api.JoinsService)
	services.Keys, _ = cluster.(api.KeyHasher)
	services.Locks, _ = cluster.(api.LockService)
	services.Owned, _ = cluster.(api.OwnedService)
	services.Plan, _ = cluster.(api.PlanService)
	services.Policy, _ = cluster.(api.PolicyService)
	services.Processes, _ = cluster.(api.ProcessService)
	services.Rotation, _ = cluster.(api.RotationService)
	services.Running, _ = cluster.(api.RunningService)
	services.Services, _ = cluster.(api.ServiceLister)
	services.Settings, _ = cluster.(api.SettingsService)
	services.Standbys, _ = cluster.(api.StandbyService)
	services.Upgrade, _ = cluster.(api.UpgradeService)
	services.WebSockets, _ = cluster.(api.WebSocketService)
	return services
}
