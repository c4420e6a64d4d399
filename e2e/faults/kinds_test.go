//go:build linux

package faults_test

import (
	"fmt"
	"io"
	"net"
	"testing"

	"shardway/e2e/faults"
	"shardway/e2e/kit/cluster"
)

// kind is a fault that TestFaults measures.
type kind struct {
	name string
	// endName is the name of a further measurement of a trial: the return of the node.
	endName string
	// target is the goal of the project, by takeover; "" applies to all.
	target       map[string]string
	needsNetwork bool // it needs network faults
	run          func(*stage) []faults.Trial
}

var kinds = []kind{
	{
		name: "kill -9 follower", endName: "  its restart",
		target: map[string]string{"lease": "moved: median 600, max 1000", "immediate": "moved: median 100, aim 50"},
		run:    func(s *stage) []faults.Trial { return s.kill(s.c.Follower(s.tb)) },
	},
	{
		name: "kill -9 leader", endName: "  its restart",
		target: map[string]string{"lease": "moved: 800", "immediate": "moved: 200, aim 100"},
		run:    func(s *stage) []faults.Trial { return s.kill(s.c.Leader(s.tb)) },
	},
	{
		name: "SIGTERM follower", endName: "  its restart",
		target: map[string]string{"": "all: 150, none failed"},
		run:    func(s *stage) []faults.Trial { return s.terminate(s.c.Follower(s.tb)) },
	},
	{
		name: "SIGTERM leader", endName: "  its restart",
		target: map[string]string{"": "all: 150, none failed"},
		run:    func(s *stage) []faults.Trial { return s.terminate(s.c.Leader(s.tb)) },
	},
	{
		name: "SIGTERM with a WebSocket", endName: "  its restart",
		target: map[string]string{"": "all: 500, none failed"},
		run:    func(s *stage) []faults.Trial { return s.terminateWith("Connection: Upgrade\r\nUpgrade: websocket\r\n") },
	},
	{
		name: "SIGTERM with events", endName: "  its restart",
		target: map[string]string{"": "all: 500, none failed"},
		run:    func(s *stage) []faults.Trial { return s.terminateWith("App-Events: 20ms\r\n") },
	},
	{
		name: "SIGSTOP follower", target: map[string]string{"": "moved: 3000"},
		run: func(s *stage) []faults.Trial { return s.pause(s.c.Follower(s.tb)) },
	},
	{
		name: "SIGSTOP leader", target: map[string]string{"": "moved: 2900, other: 100, none cut"},
		run: func(s *stage) []faults.Trial { return s.pause(s.c.Leader(s.tb)) },
	},
	{
		name: "isolated follower", needsNetwork: true, target: map[string]string{"": "moved: 3000"},
		run: func(s *stage) []faults.Trial { return s.isolate(s.c.Follower(s.tb)) },
	},
	{
		name: "isolated leader", needsNetwork: true, target: map[string]string{"": "moved: 2900, other: 100, none cut"},
		run: func(s *stage) []faults.Trial { return s.isolate(s.c.Leader(s.tb)) },
	},
	{
		name: "join", run: func(s *stage) []faults.Trial { return s.join() },
	},
}

// kill sends kill -9 and starts the node again. Clients use the other nodes.
func (s *stage) kill(victim *cluster.Node) []faults.Trial {
	otherNodes := s.others(victim)
	return []faults.Trial{
		s.measure(scene{to: otherNodes, victim: victim}, func() {
			victim.Kill(s.tb)
			s.c.AwaitShards(s.tb, otherNodes...)
		}),
		s.restart(victim),
	}
}

// restart starts a node that has ended. Clients use the other nodes.
func (s *stage) restart(node *cluster.Node) faults.Trial {
	otherNodes := s.c.Running()
	return s.measure(scene{to: otherNodes}, func() {
		node.Start(s.tb)
		s.c.AwaitShards(s.tb, append(otherNodes, node)...)
	})
}

// terminate sends SIGTERM and starts the node again. Clients use all nodes, and try
// another one when a connection is closed.
func (s *stage) terminate(victim *cluster.Node) []faults.Trial {
	otherNodes := s.others(victim)
	return []faults.Trial{
		s.measure(scene{to: s.c.Running(), victim: victim}, func() {
			victim.Stop(s.tb)
			s.c.AwaitShards(s.tb, otherNodes...)
		}),
		s.restart(victim),
	}
}

// terminateWith is terminate of a follower with one open stream, for one of its keys.
func (s *stage) terminateWith(lines string) []faults.Trial {
	victim := s.c.Follower(s.tb)
	key := s.committed(s.others(victim)).Keys(victim.ID, 1)[0]
	conn, err := net.Dial("tcp", victim.Addr)
	must(s.tb, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\n%s\r\n", key, lines)
	must(s.tb, err)
	_, err = conn.Read(make([]byte, 1))
	must(s.tb, err)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, conn)
	}()
	defer func() { <-drained }()
	return s.terminate(victim)
}

// pause sends SIGSTOP, until other nodes own the shards of the node.
func (s *stage) pause(victim *cluster.Node) []faults.Trial {
	otherNodes := s.others(victim)
	t := s.measure(scene{to: otherNodes, victim: victim, long: true}, func() {
		victim.Pause(s.tb)
		s.c.AwaitShards(s.tb, otherNodes...)
	})
	victim.Continue(s.tb)
	return []faults.Trial{t}
}

// isolate disconnects a node from all others, until they own its shards.
func (s *stage) isolate(victim *cluster.Node) []faults.Trial {
	otherNodes := s.others(victim)
	t := s.measure(scene{to: otherNodes, victim: victim, long: true}, func() {
		must(s.tb, s.net.Isolate(s.host(victim)))
		s.c.AwaitShards(s.tb, otherNodes...)
	})
	must(s.tb, s.net.Heal())
	return []faults.Trial{t}
}

// join adds a node with an empty disk, which leaves again afterwards.
func (s *stage) join() []faults.Trial {
	t := s.measure(scene{to: s.c.Running()}, func() {
		if s.guest == nil {
			s.guest = s.c.Add(s.tb)
		} else {
			s.guest.Start(s.tb)
		}
		s.c.AwaitShards(s.tb, s.c.Running()...)
	})
	s.c.AwaitServing(s.tb) // as a voter, which leaves permanently
	s.guest.Stop(s.tb)
	s.guest.Wipe(s.tb)
	return []faults.Trial{t}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
