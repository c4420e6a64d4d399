package node

import (
	"shardway/node/apphealth"
	"shardway/proxy"
)

// Apply replaces the settings of the proxy. They apply to all later requests of clients.
func (n *Node) Apply(set proxy.Settings) { n.proxy.Apply(set) }

// Ready returns nil if this node is ready for requests, otherwise an *api.UnreadyError with the reason.
func (n *Node) Ready() error { return n.api.Ready() }

// ApplyHealth replaces the settings of the health check, from the next check on.
func (n *Node) ApplyHealth(set apphealth.Settings) {
	if n.health != nil {
		n.health.SetSettings(set)
	}
}
