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
	return api.Set{
		Cluster: a, Checkup: a.Checkups, Drain: a, History: n, Hot: a.Load, Keys: n.hasher, Owned: a, Plan: a, Policy: a, Processes: processes, Rotation: n,
		Running: a.Running, Services: a, Settings: a, Standbys: a, Upgrade: a, WebSockets: a.WebSockets,
	}
}
