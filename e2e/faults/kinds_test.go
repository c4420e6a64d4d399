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
	// mended names what else a trial measures: the return of the node.
	mended string
	// target is what the project wants, by takeover; under "" for all.
	target map[string]string
	wires  bool // it cuts wires
	run    func(*stage) []faults.Trial
}

var kinds = []kind{
	{
		name: "kill -9 follower", mended: "  its restart",
		target: map[string]string{"lease": "moved: median 600, max 1000", "immediate": "moved: median 100, aim 50"},
		run:    func(s *stage) []faults.Trial { return s.kill(s.c.Follower(s.tb)) },
	},
	{
		name: "kill -9 leader", mended: "  its restart",
		target: map[string]string{"lease": "moved: 800", "immediate": "moved: 200, aim 100"},
		run:    func(s *stage) []faults.Trial { return s.kill(s.c.Leader(s.tb)) },
	},
	{
		name: "SIGTERM follower", mended: "  its restart",
		target: map[string]string{"": "all: 150, none failed"},
		run:    func(s *stage) []faults.Trial { return s.terminate(s.c.Follower(s.tb)) },
	},
	{
		name: "SIGTERM leader", mended: "  its restart",
		target: map[string]string{"": "all: 150, none failed"},
		run:    func(s *stage) []faults.Trial { return s.terminate(s.c.Leader(s.tb)) },
	},
	{
		name: "SIGTERM with a WebSocket", mended: "  its restart",
		target: map[string]string{"": "all: 500, none failed"},
		run:    func(s *stage) []faults.Trial { return s.terminateWith("Connection: Upgrade\r\nUpgrade: websocket\r\n") },
	},
	{
		name: "SIGTERM with events", mended: "  its restart",
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
		name: "isolated follower", wires: true, target: map[string]string{"": "moved: 3000"},
		run: func(s *stage) []faults.Trial { return s.isolate(s.c.Follower(s.tb)) },
	},
	{
		name: "isolated leader", wires: true, target: map[string]string{"": "moved: 2900, other: 100, none cut"},
		run: func(s *stage) []faults.Trial { return s.isolate(s.c.Leader(s.tb)) },
	},
	{
		name: "join", run: func(s *stage) []faults.Trial { return s.join() },
	},
}

// kill is kill -9 and the start after it. Clients talk to the survivors.
func (s *stage) kill(victim *cluster.Node) []faults.Trial {
	rest := s.but(victim)
	return []faults.Trial{
		s.measure(scene{to: rest, victim: victim}, func() {
			victim.Kill(s.tb)
			s.c.AwaitShards(s.tb, rest...)
		}),
		s.comeBack(victim),
	}
}

// comeBack starts a node that has ended. Clients talk to the others.
func (s *stage) comeBack(n *cluster.Node) faults.Trial {
	rest := s.c.Running()
	return s.measure(scene{to: rest}, func() {
		n.Start(s.tb)
		s.c.AwaitShards(s.tb, append(rest, n)...)
	})
}

// terminate is SIGTERM and the start after it. Clients talk to all nodes, and go
// elsewhere when a connection is closed.
func (s *stage) terminate(victim *cluster.Node) []faults.Trial {
	rest := s.but(victim)
	return []faults.Trial{
		s.measure(scene{to: s.c.Running(), victim: victim}, func() {
			victim.Stop(s.tb)
			s.c.AwaitShards(s.tb, rest...)
		}),
		s.comeBack(victim),
	}
}

// terminateWith is terminate of a follower with one stream open, of a key of its own.
func (s *stage) terminateWith(lines string) []faults.Trial {
	victim := s.c.Follower(s.tb)
	key := s.committed(s.but(victim)).Keys(victim.ID, 1)[0]
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

// pause is SIGSTOP, until others own the node's shards.
func (s *stage) pause(victim *cluster.Node) []faults.Trial {
	rest := s.but(victim)
	t := s.measure(scene{to: rest, victim: victim, long: true}, func() {
		victim.Pause(s.tb)
		s.c.AwaitShards(s.tb, rest...)
	})
	victim.Continue(s.tb)
	return []faults.Trial{t}
}

// isolate cuts a node off from all others, until they own its shards.
func (s *stage) isolate(victim *cluster.Node) []faults.Trial {
	rest := s.but(victim)
	t := s.measure(scene{to: rest, victim: victim, long: true}, func() {
		must(s.tb, s.net.Isolate(s.host(victim)))
		s.c.AwaitShards(s.tb, rest...)
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
	s.c.AwaitServing(s.tb) // it votes: only then it leaves for good
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
