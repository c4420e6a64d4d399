package leader

import (
	"maps"
	"slices"

	"shardway/shardmap"
)

// avoidFailingApps adapts the policy of the next map to acquire failures. A failing shard
// moves to the member with the fewest shards whose app has not failed to acquire it, and stays
// there. Without such a member it stays where it is. A member whose app cannot acquire any shard
// gets no further shards, as if it were cordoned.
func (l *Leader) avoidFailingApps(p *shardmap.Policy, members []shardmap.Member) {
	base, avoid := l.state.Committed(), map[shardmap.Shard]map[shardmap.NodeID]bool{}
	cordoned := false
	for _, m := range members {
		n := l.member(m.ID)
		for _, s := range n.heartbeat.UnacquiredShards {
			if int(s) < base.Len() {
				if avoid[s] == nil {
					avoid[s] = map[shardmap.NodeID]bool{}
				}
				avoid[s][m.ID] = true
			}
		}
		if n.heartbeat.AcquiresNone && !p.Cordoned[m.ID] {
			if !cordoned {
				p.Cordoned, cordoned = maps.Clone(p.Cordoned), true
			}
			setKey(&p.Cordoned, m.ID, true)
		}
	}
	if len(avoid) == 0 {
		return
	}
	counts := map[shardmap.NodeID]int{}
	for _, m := range members {
		if !p.Absent[m.ID] && !p.Cordoned[m.ID] && !p.Emptying[m.ID] && !p.Drained[m.ID] {
			counts[m.ID] = base.Count(m.ID)
		}
	}
	p.Pins = maps.Clone(p.Pins)
	for _, s := range slices.Sorted(maps.Keys(avoid)) {
		if to := l.relocationTarget(p, members, base.Owner(s), s, avoid[s], counts); to != "" {
			setKey(&p.Pins, s, shardmap.Pin{Node: to})
			counts[to]++
		}
	}
}

// relocationTarget returns the member that should own a shard which the apps of avoid fail to
// acquire. Empty means that the shard is placed like any other.
func (l *Leader) relocationTarget(p *shardmap.Policy, members []shardmap.Member, owner shardmap.NodeID, s shardmap.Shard, avoid map[shardmap.NodeID]bool, counts map[shardmap.NodeID]int) (to shardmap.NodeID) {
	pin, pinned := p.Pins[s]
	_, fits := counts[pin.Node]
	if pinned && fits && !avoid[pin.Node] {
		return ""
	}
	is := func(m shardmap.Member) bool { return m.ID == owner }
	stays := slices.ContainsFunc(members, is) && !p.Emptying[owner] && !p.Drained[owner]
	if stays && !avoid[owner] {
		return owner
	}
	for _, m := range members {
		count, may := counts[m.ID]
		if !may || avoid[m.ID] || pinned && pin.Zone != "" && p.Zones[m.ID] != pin.Zone {
			continue
		}
		if to == "" || count < counts[to] {
			to = m.ID
		}
	}
	if to == "" && stays {
		return owner
	}
	return to
}
