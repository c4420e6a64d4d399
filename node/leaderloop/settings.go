package leaderloop

import (
	"fmt"
	"maps"
	"sync"

	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/diagnosis"
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

// Differences records the settings of a node on the leader, and returns the settings that differ between
// the nodes that send heartbeats. It compares only nodes that have reported their settings.
func (l *Leadership) Differences(views []leader.MemberView, node string, settings map[string]string) ([]diagnosis.Difference, error) {
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
