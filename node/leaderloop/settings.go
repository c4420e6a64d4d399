package leaderloop

import (
	"fmt"
	"maps"
	"sync"

	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/keysource"
)

// maxSettings and maxSettingsBytes bound the number and the total size of the settings that one node may
// report.
const (
	maxSettings      = 64
	maxSettingsBytes = 16 << 10
)

// settingsTable contains, on the leader, the last settings that each node has reported. Each node reports
// its settings when it asks the leader which settings differ.
type settingsTable struct {
	mu     sync.Mutex
	byNode map[string]map[string]string
}

// record records the settings of a node. It returns an error if they exceed maxSettings or maxSettingsBytes.
func (t *settingsTable) record(node string, settings map[string]string) error {
	size := 0
	for name, value := range settings {
		size += len(name) + len(value)
	}
	if len(settings) > maxSettings || size > maxSettingsBytes {
		return fmt.Errorf("%w: %d settings of %d bytes, at most %d of %d are allowed", api.ErrInvalid, len(settings), size, maxSettings, maxSettingsBytes)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byNode == nil {
		t.byNode = map[string]map[string]string{}
	}
	t.byNode[node] = settings
	return nil
}

// ofNodes returns the settings of the alive nodes, and deletes the settings of all other nodes.
func (t *settingsTable) ofNodes(alive map[string]bool) (reported []diagnosis.SettingsOf) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.byNode, func(node string, _ map[string]string) bool { return !alive[node] })
	for node, settings := range t.byNode {
		reported = append(reported, diagnosis.SettingsOf{Node: node, Settings: settings})
	}
	return reported
}

// serviceShards returns the number of shards of a service by node, according to the reported settings.
func (t *settingsTable) serviceShards(service string) map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	shards := map[string]int{}
	for node, settings := range t.byNode {
		if count, found := keysource.ParseShards(settings[keysource.ShardsSetting], service); found {
			shards[node] = count
		}
	}
	return shards
}

// SettingsDifferences records the settings of a node on the leader, and returns the settings that differ between
// the nodes that send heartbeats. It compares only nodes that have reported their settings.
func (l *Leadership) SettingsDifferences(views []leader.MemberView, node string, settings map[string]string) ([]diagnosis.Difference, error) {
	if err := l.reportedSettings.record(node, settings); err != nil {
		return nil, err
	}
	alive := map[string]bool{node: true}
	for _, member := range views {
		if member.SinceHeartbeat >= 0 && !member.Silent && !member.Crashed {
			alive[string(member.Node)] = true
		}
	}
	return append([]diagnosis.Difference{}, diagnosis.Differences(l.reportedSettings.ofNodes(alive))...), nil
}
