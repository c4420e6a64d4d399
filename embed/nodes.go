package embed

import "maps"

// NodeStatus describes a node, as this node sees it.
type NodeStatus struct {
	// ID is the node ID.
	ID string
	// State is joining, active, draining, drained, cordoned, restarting, failed or left, as in `shardway nodes`. Only the
	// leader has the information for the states suspect and unhealthy of that command, so they do not occur.
	State string
	// Leader is set if the node leads the cluster. Voter is set if it has a vote in elections. Gateway is set if it
	// owns no shards because it has no app.
	Leader, Voter, Gateway bool
	// Shards is the number of shards that the node owns in the map in force.
	Shards int
	// Weight is the share of the shards, relative to the other nodes; zero for a gateway.
	Weight int
	// Zone and AppVersion are the settings of the node; empty means not set.
	Zone, AppVersion string
	// Endpoints contains the addresses that the node announces, by name.
	Endpoints map[string]string
}

// Nodes returns all nodes that this node knows, itself included, sorted by ID. Nodes that have failed or left are included
// until they are removed. Nodes reads only the state of this node, so it does not block, and its result can be outdated by
// some seconds. It returns nil until Run has started the node.
func (n *Node) Nodes() []NodeStatus {
	select {
	case <-n.process.Node().Started():
	default:
		return nil
	}
	all := n.process.Node().Nodes()
	nodes := make([]NodeStatus, len(all))
	for i := range all {
		node := &all[i]
		nodes[i] = NodeStatus{
			ID: node.ID, State: node.State, Leader: node.Role == "leader", Voter: node.Voter, Gateway: node.App == "none", Shards: node.Shards,
			Weight: int(node.Weight), Zone: node.Zone, AppVersion: node.AppVersion, Endpoints: maps.Clone(node.Endpoints),
		}
	}
	return nodes
}
