package node

import (
	"shardway/admin/api"
	"shardway/node/adminapi"
)

// API returns what serves the admin port, without the services of other packages.
func (n *Node) API() *adminapi.API { return n.api }

// AdminAPI returns the services that the node offers at its admin port.
func (n *Node) AdminAPI() api.Set {
	a := n.api
	return api.Set{
		Cluster: a, Checkup: a.Checkups, Drain: a, History: n, Hot: a.Load, Keys: n.hasher, Owned: a, Plan: a, Policy: a, Processes: n.processService(), Rotation: n,
		Running: a.Running, Settings: a, Upgrade: a, WebSockets: a.WebSockets,
	}
}

// processService returns the service for the processes of the app, or nil if the node starts none.
func (n *Node) processService() api.ProcessService {
	if n.processes == nil {
		return nil
	}
	return n.processes
}
