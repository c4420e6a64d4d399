package node

import "shardway/admin/api"

// AdminAPI returns the services that the node offers at its admin port.
func (n *Node) AdminAPI() api.Set {
	return api.Set{
		Cluster: n, Checkup: n, Drain: n, History: n, Hot: n, Keys: n, Owned: n, Plan: n, Policy: n, Rotation: n,
		Running: n, Settings: n, Upgrade: n, WebSockets: n,
	}
}
