package dashboard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"shardway/admin/api"
	"shardway/diagnosis"
	"shardway/event"
)

// Scene is an invented cluster, as one of its nodes reports it. Any number of goroutines
// may use it.
type Scene struct {
	mu             sync.Mutex
	status         api.Status
	owners         []int          // index in status.Nodes of the owner of each shard; -1 means that it is orphaned
	ownedSince     []uint64       // ownership epoch of each shard
	proposedOwners map[int]string // ID of the next owner of each shard that moves
	moves          []api.Move
	running        []api.Running
	findings       []diagnosis.Finding
	// Ring contains the events.
	Ring *event.Ring
}

// API returns the services of the scene.
func (s *Scene) API() api.Set {
	return api.Set{Cluster: s, History: s, Running: s, WebSockets: s}
}

// NewScene returns a healthy cluster with a fixed random seed, so that each call returns the same
// cluster. Its shards are distributed as after some failovers.
func NewScene(nodes, shards int) *Scene {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // no secret
	scene := &Scene{proposedOwners: map[int]string{}, ownedSince: make([]uint64, shards), owners: make([]int, shards)}
	scene.addNodes(nodes, random)
	for i, shard := range random.Perm(shards) {
		scene.owners[shard] = i % nodes
		scene.ownedSince[shard] = 1
		movedLater := i%7 == 0
		if movedLater {
			scene.ownedSince[shard] = 2 + uint64(i%11)
		}
	}
	status := &scene.status
	status.Node, status.Boot, status.Cluster, status.Version = "n1", 4, "c0ffee11", "1.0.0"
	status.State, status.Role, status.Term, status.Epoch, status.Proposed = "operational", "follower", 3, 17, 17
	status.LeaseMS, status.UptimeS, status.Shards.Total = 1431, 93784, shards
	status.Timing = &api.TimingState{Timing: api.Timing{Lease: "1.5s", DeadAfter: "2s", Takeover: "timeout", RebalanceMode: "incremental"}}
	scene.Ring = event.NewRing(event.Options{Node: "n1", RunID: 7, Stamp: func() event.Stamp { return event.Stamp{Boot: 4, Epoch: 17, Term: 3} }})
	scene.Ring.Add(event.Event{Kind: event.LeaderElected, Node: status.Leader})
	scene.Ring.Add(event.Event{Kind: event.MapCommitted, Epoch: 17, Reason: "new-leader", Change: &event.Change{Base: 16, Gained: shards / nodes, FromLog: true}})
	scene.updateCounts()
	return scene
}

// addNodes adds healthy nodes in three zones. The second node is the leader.
func (s *Scene) addNodes(count int, random *rand.Rand) {
	zones := []string{"east", "west", "north"}
	for i := range count {
		id := fmt.Sprintf("n%d", i+1)
		role := "follower"
		if i == 1%count {
			role = "leader"
			s.status.Leader = id
		}
		s.status.Nodes = append(s.status.Nodes, api.Node{
			ID: id, State: "active", Role: role, Voter: i < 5, Weight: 1, Zone: zones[i%3], Version: "1.0.0", Roles: []string{}, Meta: map[string]string{},
			AppVersion: "2.14.0", App: "healthy", LastHeartbeatMS: int64(random.IntN(100)),
			Endpoints: map[string]string{"http": fmt.Sprintf("10.0.%d.%d:8080", i/200, i%200+1)},
		})
		s.running = append(s.running, api.Running{
			Node: id, Version: "1.0.0", LeaseMS: 1400 + int64(random.IntN(100)), Requests: random.IntN(40), Sockets: random.IntN(200),
		})
	}
}

// updateCounts updates the numbers of shards and the findings in the status. mu must be held, unless the
// scene is not in use yet.
func (s *Scene) updateCounts() {
	s.countOwned()
	shards := &s.status.Shards
	shards.Moving, shards.Unavailable = len(s.proposedOwners), shards.Orphaned
	for _, node := range s.status.Nodes {
		if node.State == "failed" {
			shards.Unavailable += node.Shards
		}
	}
	s.status.Findings = nil
	if shards.Unavailable > 0 {
		s.status.Findings = []diagnosis.Finding{{
			Code: diagnosis.Unavailable, Severity: diagnosis.Outage,
			Text:   fmt.Sprintf("no node serves %d of %d shards: they are moving away from nodes that are gone", shards.Unavailable, len(s.owners)),
			Remedy: "resolve the other findings: then the shards are served again",
		}}
	}
	s.status.Findings = append(s.status.Findings, s.findings...)
}

// countOwned updates the numbers of owned and orphaned shards in the status.
func (s *Scene) countOwned() {
	owned := make([]int, len(s.status.Nodes))
	s.status.Shards.Orphaned = 0
	for _, owner := range s.owners {
		if owner < 0 {
			s.status.Shards.Orphaned++
		} else {
			owned[owner]++
		}
	}
	for i := range s.status.Nodes {
		s.status.Nodes[i].Shards = owned[i]
		if s.status.Nodes[i].ID == s.status.Node {
			s.status.Shards.Owned = owned[i]
		}
	}
}

// Change calls modify with the status of the scene, and then updates the numbers of shards.
func (s *Scene) Change(modify func(status *api.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Nodes = append([]api.Node(nil), s.status.Nodes...)
	modify(&s.status)
	s.updateCounts()
}

// AddFindings adds findings.
func (s *Scene) AddFindings(all ...diagnosis.Finding) {
	s.Change(func(*api.Status) { s.findings = all })
}

// Orphan takes the owners of shards away.
func (s *Scene) Orphan(shards ...int) {
	s.Change(func(*api.Status) {
		for _, shard := range shards {
			s.owners[shard] = -1
		}
	})
}

// Fail makes a node fail. The proposed map gives its shards to the other nodes.
func (s *Scene) Fail(node int) {
	s.Change(func(status *api.Status) {
		status.Nodes[node].State, status.Nodes[node].App, status.Nodes[node].LastHeartbeatMS = "failed", "unknown", 1200
		status.State, status.Proposed = "rebalancing", status.Epoch+1
		next := 0
		for shard, owner := range s.owners {
			if owner != node {
				continue
			}
			for next%len(status.Nodes) == node || status.Nodes[next%len(status.Nodes)].State != "active" {
				next++
			}
			s.proposedOwners[shard] = status.Nodes[next%len(status.Nodes)].ID
			next++
		}
		s.Ring.Add(event.Event{Kind: event.NodeFailed, Node: status.Nodes[node].ID})
		s.addMapEvent(event.MapProposed, event.Phase{Name: event.PhaseLog, MS: 3.4})
	})
}

// addMapEvent adds an event about the pending change of the map. mu must be held.
func (s *Scene) addMapEvent(kind event.Kind, phases ...event.Phase) {
	change := event.Change{Base: s.status.Epoch, Moved: len(s.proposedOwners), Phases: phases}
	if kind == event.MapCommitted {
		change.Queued = 12
	}
	moves := map[event.ShardMoves]int{}
	for shard, to := range s.proposedOwners {
		moves[event.ShardMoves{From: s.status.Nodes[s.owners[shard]].ID, To: to}]++
	}
	for _, node := range s.status.Nodes {
		for move, count := range moves {
			if move.To == node.ID {
				move.Shards = count
				change.Moves = append(change.Moves, move)
			}
		}
	}
	s.Ring.Add(event.Event{Kind: kind, Epoch: s.status.Proposed, Reason: "crashed", Change: &change})
}

// Commit commits the pending moves. reason is the reason that the history of the shards shows.
func (s *Scene) Commit(reason string) {
	s.Change(func(status *api.Status) {
		s.addMapEvent(event.MapCommitted, event.Phase{Name: event.PhaseLog, MS: 3.4}, event.Phase{Name: event.PhaseDrain, MS: 11.2}, event.Phase{Name: event.PhaseWait, MS: 1466},
			event.Phase{Name: event.PhaseAcknowledge, MS: 1471.8}, event.Phase{Name: event.PhaseCommit, MS: 4.1})
		status.Epoch = status.Proposed
		status.State = "operational"
		for shard, nextOwner := range s.proposedOwners {
			previousOwner := status.Nodes[s.owners[shard]].ID
			s.moves = append(s.moves, api.Move{Epoch: status.Epoch, Shard: uint32(shard), From: previousOwner, To: nextOwner, Reason: reason})
			s.owners[shard] = slices.IndexFunc(status.Nodes, func(node api.Node) bool { return node.ID == nextOwner })
			s.ownedSince[shard] = status.Epoch
		}
		clear(s.proposedOwners)
	})
}

// Idle returns why the shards of an owner are not served. Empty means that they are.
func (s *Scene) Idle(owner string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range s.status.Nodes {
		if node.ID == owner && node.State == "failed" {
			return "it sends no heartbeats"
		}
	}
	return ""
}

// Ready returns nil.
func (s *Scene) Ready() error { return nil }

// Status returns the data of the page.
func (s *Scene) Status() api.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Shards lists every shard.
func (s *Scene) Shards() api.ShardList {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := api.ShardList{Epoch: s.status.Epoch, Proposed: s.status.Proposed, Total: len(s.owners)}
	for i, owner := range s.owners {
		shard := api.Shard{Shard: uint32(i), State: api.ShardOwned, Epoch: s.ownedSince[i], To: s.proposedOwners[i]}
		if owner >= 0 {
			shard.Owner = s.status.Nodes[owner].ID
		} else {
			shard.State, shard.Epoch = api.ShardOrphaned, 0
		}
		if shard.To != "" {
			shard.State = api.ShardMoving
		}
		list.Shards = append(list.Shards, shard)
	}
	return list
}

// Moves returns the moves of one shard.
func (s *Scene) Moves(shard uint32) (all []api.Move) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, move := range s.moves {
		if move.Shard == shard {
			all = append(all, move)
		}
	}
	return all
}

// Endpoints returns none.
func (s *Scene) Endpoints() []api.Endpoint { return nil }

// Map returns the committed map.
func (s *Scene) Map() api.Map {
	s.mu.Lock()
	defer s.mu.Unlock()
	shardMap := api.Map{Epoch: s.status.Epoch, Shards: len(s.owners), Owners: append([]int(nil), s.owners...)}
	for _, node := range s.status.Nodes {
		shardMap.Nodes = append(shardMap.Nodes, api.MapNode{ID: node.ID, HTTP: node.Endpoints["http"]})
	}
	return shardMap
}

// WaitMap waits for the end of ctx.
func (s *Scene) WaitMap(ctx context.Context, _ uint64) { <-ctx.Done() }

// Backup returns an error.
func (s *Scene) Backup() ([]byte, error) { return nil, api.ErrRefused }

// Do returns an error.
func (s *Scene) Do(context.Context, api.Action) error { return api.ErrRefused }

// Running returns the activity of the nodes.
func (s *Scene) Running(context.Context) api.RunningList {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list api.RunningList
	for i, running := range s.running {
		if s.status.Nodes[i].State != "failed" {
			list.Nodes = append(list.Nodes, running)
		} else {
			list.Unresponsive = append(list.Unresponsive, running.Node)
		}
	}
	return list
}

// Sockets returns the WebSockets of two shards, with clients at the first node.
func (s *Scene) Sockets(context.Context) api.SocketList {
	s.mu.Lock()
	defer s.mu.Unlock()
	return api.SocketList{
		Shards: []api.ShardSockets{{Shard: 0, Attached: 11, Detached: 2}, {Shard: 1, Attached: 3, Plain: 4}},
		Nodes:  []api.NodeSockets{{Node: s.status.Nodes[0].ID, Attached: 14, Detached: 2, App: 18}},
	}
}

// BreakSockets breaks none.
func (s *Scene) BreakSockets(context.Context, api.SocketBreak, string) api.BrokenSockets {
	return api.BrokenSockets{}
}
