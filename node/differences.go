package node

import (
	"fmt"
	"maps"
	"sync"

	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/node/control"
)

// maxSettings and maxSettingsBytes bound the number and the total size of the settings that one node may
// report.
const (
	maxSettings      = 64
	maxSettingsBytes = 16 << 10
)

// settingsBook contains, on the leader, the last settings that each node has reported. Each node reports
// its settings when it asks the leader which settings differ.
type settingsBook struct {
	mu    sync.Mutex
	nodes map[string]map[string]string
}

// put records the settings of a node. It returns an error if they exceed maxSettings or maxSettingsBytes.
func (b *settingsBook) put(node string, settings map[string]string) error {
	size := 0
	for name, value := range settings {
		size += len(name) + len(value)
	}
	if len(settings) > maxSettings || size > maxSettingsBytes {
		return fmt.Errorf("%w: %d settings of %d bytes, at most %d of %d are allowed", api.ErrInvalid, len(settings), size, maxSettings, maxSettingsBytes)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.nodes == nil {
		b.nodes = map[string]map[string]string{}
	}
	b.nodes[node] = settings
	return nil
}

// among returns the settings of the alive nodes, and deletes those of the other nodes.
func (b *settingsBook) among(alive map[string]bool) (all []diagnosis.SettingsOf) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.nodes, func(node string, _ map[string]string) bool { return !alive[node] })
	for node, settings := range b.nodes {
		all = append(all, diagnosis.SettingsOf{Node: node, Settings: settings})
	}
	return all
}

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

// differences records the settings of a node on the leader, and returns the settings that differ between
// the nodes that send heartbeats. It compares only nodes that have reported their settings.
func (l *leadership) differences(views []leader.MemberView, node string, settings map[string]string) ([]diagnosis.Difference, error) {
	if err := l.settings.put(node, settings); err != nil {
		return nil, err
	}
	alive := map[string]bool{node: true}
	for _, v := range views {
		if v.SinceHeartbeat >= 0 && !v.Silent && !v.Crashed {
			alive[string(v.Node)] = true
		}
	}
	return append([]diagnosis.Difference{}, diagnosis.Differences(l.settings.among(alive))...), nil
}

// ownDifferences returns the settings that differ between nodes, if this node leads. nil means that this
// node does not lead any more.
func (n *Node) ownDifferences(views []leader.MemberView) []diagnosis.Difference {
	l := n.leadership()
	if l == nil {
		return nil
	}
	d, err := l.differences(views, string(n.self), n.ownSettings())
	if err != nil {
		n.log.Warn().Err(err).Msg("settings not compared")
	}
	return d
}
