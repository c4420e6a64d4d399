package node

import (
	"fmt"
	"maps"
	"sync"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/node/control"
)

// maxSettings bounds what one node may tell of its settings: entries, and bytes of all.
const (
	maxSettings      = 64
	maxSettingsBytes = 16 << 10
)

// settingsBook keeps, at the leader, the settings that each node has told last. Every node
// tells its own when it asks the leader what differs.
type settingsBook struct {
	mu    sync.Mutex
	nodes map[string]map[string]string
}

// put keeps what a node has told.
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

// among returns the settings of the nodes that are alive, and forgets the others.
func (b *settingsBook) among(alive map[string]bool) (all []diagnosis.SettingsOf) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.nodes, func(node string, _ map[string]string) bool { return !alive[node] })
	for node, settings := range b.nodes {
		all = append(all, diagnosis.SettingsOf{Node: node, Settings: settings})
	}
	return all
}

// ApplySettings replaces the settings that must be the same on all nodes, by name, with
// which this node runs. The map must not change any more.
func (n *Node) ApplySettings(settings map[string]string) { n.settings.Store(&settings) }

// ownSettings returns what ApplySettings, or Options.Settings, has set last.
func (n *Node) ownSettings() map[string]string {
	if s := n.settings.Load(); s != nil {
		return *s
	}
	return n.o.Settings
}

// askDifferences returns the question of this node to the leader: which settings differ? It
// tells the node's own.
func (n *Node) askDifferences() control.Request {
	return control.Request{Kind: control.Settings, Settings: n.ownSettings()}
}

// differences returns, on the leader, the settings that differ among the nodes that it
// hears. A node counts once it has asked.
func (l *leadership) differences(views []ack.MemberView, node string, settings map[string]string) ([]diagnosis.Difference, error) {
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

// ownDifferences is what a leader knows of differences; nil: it leads no more.
func (n *Node) ownDifferences(views []ack.MemberView) []diagnosis.Difference {
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
