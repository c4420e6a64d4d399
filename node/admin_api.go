package node

import (
	"shardway/admin/api"
	"shardway/node/adminapi"
)

// API returns the services of the admin port, without those of other packages.
func (n *Node) API() *adminapi.API { return n.api }

// AdminAPI returns the services that the node offers at its admin port.
func (n *Node) AdminAPI() api.Set {
	a := n.api
	var processes api.ProcessService // nil if the node starts no processes of the app
	if n.processes != nil {
		processes = n.processes
	}
	var locks api.LockService // nil without --registry
	if n.options.Registry {
		locks = n.registry()
	}
	return api.Set{
		Cluster: a, Checkup: a.Checkups, Drain: a, History: n, Hot: a.Load, Joins: a, Keys: n.hasher, Locks: locks, Owned: a, Plan: a, Policy: a, Processes: processes, Rotation: n,
		Running: a.Running, Services: a, Settings: a, Standbys: a, Upgrade: a, WebSockets: a.WebSockets,
	}
}

// registry returns the services of the registry.
func (n *Node) registry() *adminapi.Registry {
	return &adminapi.Registry{
		Leader: n.leaderClient, Store: n.fsm.registry,
		CountAcquire: func(result string) { n.metrics.LockAcquires.WithLabelValues(result).Inc() },
	}
}
