package node

import (
	"shardway/ack/leader"
	"shardway/diagnosis"
	"shardway/node/control"
)

// ApplySettings replaces the settings of this node that must be the same on all nodes, by name. The caller
// must not modify the map afterwards.
func (n *Node) ApplySettings(settings map[string]string) { n.settings.Store(&settings) }

// ownSettings returns the settings of the last call of ApplySettings, or Options.Settings before the first
// call.
func (n *Node) ownSettings() map[string]string {
	if s := n.settings.Load(); s != nil {
		return *s
	}
	return n.o.Settings
}

// askDifferences returns a request to the leader for the settings that differ between nodes. The request
// contains the settings of this node.
func (n *Node) askDifferences() control.Request {
	return control.Request{Kind: control.Settings, Settings: n.ownSettings()}
}

// ownDifferences returns the settings that differ between nodes, if this node leads. nil means that this
// node does not lead any more.
func (n *Node) ownDifferences(views []leader.MemberView) []diagnosis.Difference {
	l := n.leadership()
	if l == nil {
		return nil
	}
	d, err := l.Differences(views, string(n.self), n.ownSettings())
	if err != nil {
		n.log.Warn().Err(err).Msg("settings not compared")
	}
	return d
}
