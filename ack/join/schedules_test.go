package join_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"shardway/ack/join"
)

// world is a random schedule: nodes with disks and incarnations, and the observations of the test.
type world struct {
	*clusterLog
	random   *rand.Rand
	disks    map[string]int
	boots    map[string]uint64
	approved map[string]bool // servers that an operator has approved, or that are bootstrap members
}

// TestEveryScheduleKeepsTheRules runs random schedules of requests, decisions, restarts, replaced disks, removals,
// elections and lost entries. It checks after each step that only approved servers may join.
func TestEveryScheduleKeepsTheRules(t *testing.T) {
	for seed := range uint64(300) {
		w := &world{
			clusterLog: newLog(t), random: rand.New(rand.NewPCG(seed, 1)), disks: map[string]int{}, boots: map[string]uint64{}, approved: map[string]bool{"a/1": true},
		}
		for step := range 120 {
			w.step()
			w.check(fmt.Sprintf("seed %d, step %d", seed, step))
			if t.Failed() {
				return
			}
		}
	}
}

// server returns the current server of a node.
func (w *world) server(node string) string { return fmt.Sprintf("%s/%d", node, w.disks[node]+1) }

// step performs one random event.
func (w *world) step() {
	node := string(rune('b' + w.random.IntN(4)))
	server := w.server(node)
	switch w.random.IntN(9) {
	case 0, 1:
		_ = w.request(server, w.boots[server]+1)
	case 2:
		w.boots[server]++
	case 3:
		if w.random.IntN(3) == 0 {
			w.disks[node]++
		}
	case 4, 5:
		w.decideRandomly(node)
	case 6:
		w.elect()
	case 7:
		w.now += timeout / 4
		w.tick()
	case 8:
		if w.random.IntN(4) == 0 {
			w.records, _ = w.records.WithoutNode(node)
			for disk := range 99 {
				delete(w.approved, fmt.Sprintf("%s/%d", node, disk+1))
			}
		}
	}
}

// decideRandomly decides about the request that an operator has seen. The node may have requested again since.
func (w *world) decideRandomly(node string) {
	seen, exists := w.records.Undecided(node)
	if !exists {
		return
	}
	if w.random.IntN(3) == 0 {
		_ = w.request(w.server(node), w.boots[w.server(node)]+1)
	}
	decision := join.Decision{Node: node, Ticket: seen.Ticket, Approve: w.random.IntN(2) == 0}
	change, err := join.Decide(w.records, decision)
	if isLost := w.random.IntN(5) == 0; err != nil || isLost {
		return
	}
	if w.apply(change) && decision.Approve {
		w.approved[seen.Server] = true
	}
}

// check checks the rules.
func (w *world) check(at string) {
	admitted := map[string]string{}
	open := map[string]bool{}
	for _, record := range w.records.All() {
		if record.Stage.IsAdmitted() && !w.approved[record.Server] {
			w.t.Errorf("%s: %s joins without an approval: %+v", at, record.Server, record)
		}
		if other := admitted[record.Node()]; record.Stage.IsAdmitted() && other != "" {
			w.t.Errorf("%s: %s and %s are admitted", at, other, record.Server)
		} else if record.Stage.IsAdmitted() {
			admitted[record.Node()] = record.Server
		}
		if record.Stage != join.Requested {
			continue
		}
		if open[record.Node()] {
			w.t.Errorf("%s: two open requests of %s", at, record.Node())
		}
		open[record.Node()] = true
	}
	if len(open) > join.MaxOpen {
		w.t.Errorf("%s: %d open requests", at, len(open))
	}
}
