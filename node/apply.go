package node

import (
	"shardway/ack"
	"shardway/node/apphealth"
	"shardway/proxy"
)

// Apply replaces the settings of the proxy. They apply to all later requests of clients.
func (n *Node) Apply(set proxy.Settings) { n.proxy.Apply(set) }

// ApplySettings replaces the settings of this node that must be the same on all nodes, by name. The caller
// must not modify the map afterwards.
func (n *Node) ApplySettings(settings map[string]string) { n.api.ApplySettings(settings) }

// Ready returns nil if this node is ready for requests, otherwise an *api.UnreadyError with the reason.
func (n *Node) Ready() error { return n.api.Ready() }

// ApplyHealth replaces the settings of the health check, from the next check on.
func (n *Node) ApplyHealth(set apphealth.Settings) {
	if n.health != nil {
		n.health.SetSettings(set)
	}
}

// appHealth returns the details of the app's health that the heartbeats of this node contain, in addition
// to whether the app is healthy.
func (n *Node) appHealth() ack.AppHealth {
	if n.health == nil {
		return ack.AppHealth{}
	}
	return n.health.Report()
}
