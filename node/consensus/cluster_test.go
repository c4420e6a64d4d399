package consensus_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/simnet"
	"shardway/node/consensus"
	"shardway/node/disk"
	"shardway/peer"
)

const port = 7947

// list is a replicated list of entries. It checks that they arrive in order.
type list struct {
	mu      sync.Mutex
	entries []string
	last    uint64
	broken  bool
	held    chan struct{} // it applies nothing until held is closed; nil means no delay
}

func (l *list) Apply(index, _ uint64, data []byte) any {
	l.mu.Lock()
	held := l.held
	l.mu.Unlock()
	if held != nil {
		<-held
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if index <= l.last {
		l.broken = true
	}
	l.last = index
	l.entries = append(l.entries, string(data))
	return len(l.entries)
}

func (l *list) Snapshot() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b []byte
	b = binary.BigEndian.AppendUint64(b, l.last)
	for _, e := range l.entries {
		b = append(append(b, e...), '\n')
	}
	return b, nil
}

func (l *list) Restore(b []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(b) < 8 {
		return errors.New("short")
	}
	l.last, l.entries = binary.BigEndian.Uint64(b), nil
	for e := range bytes.Lines(b[8:]) {
		l.entries = append(l.entries, string(bytes.TrimSpace(e)))
	}
	return nil
}

// hold makes the list apply nothing until release is called.
func (l *list) hold() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := make(chan struct{})
	l.held = held
	return func() { close(held) }
}

func (l *list) have() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// group is a number of servers on a simulated network.
type group struct {
	t     *testing.T
	net   *simnet.Net
	mu    sync.Mutex
	addrs map[string]string
	all   []*server
}

// server is the Raft server of one node. Its disk and host outlive its process.
type server struct {
	*consensus.Raft
	g      *group
	host   *simnet.Host
	mem    *disk.Memory
	dir    *disk.Dir
	fsm    *list
	stream *consensus.Stream
	o      func(*consensus.Options)
	stop   func()
	failed chan error
}

// bubble runs f in virtual time with the named servers. The first one bootstraps the cluster, and the others are added and promoted.
func bubble(t *testing.T, names []string, o func(*consensus.Options), f func(g *group)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &group{t: t, net: simnet.New(simnet.Config{}), addrs: map[string]string{}}
		defer g.close()
		for _, name := range names {
			s := &server{g: g, host: g.net.Host(name), mem: disk.NewMemory(), o: o}
			g.addrs[name] = s.host.Addr(port)
			g.all = append(g.all, s)
			s.start()
		}
		g.found()
		f(g)
	})
}

func (g *group) close() {
	g.net.Close()
	for _, s := range g.all {
		if s.stop != nil {
			s.stop()
		}
	}
	time.Sleep(time.Minute) // Pending writes to slow disks end later.
}

func (g *group) found() {
	first := g.all[0]
	if err := first.Bootstrap(); err != nil {
		g.t.Fatal(err)
	}
	g.until("the first leads", first.IsLeader)
	for _, s := range g.all[1:] {
		if err := first.AddNonvoter(s.id()); err != nil {
			g.t.Fatal(err)
		}
		g.until(s.id()+" has caught up", func() bool { return first.CaughtUp(s.id()) })
		if err := first.Promote(s.id()); err != nil {
			g.t.Fatal(err)
		}
	}
}

func (s *server) id() string { return consensus.ServerID(s.dir.Node(), s.dir.Disk()) }

func (g *group) lookup(node string) (string, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a, ok := g.addrs[node]
	return a, ok
}

// start opens the disk, the peer port and Raft.
func (s *server) start() {
	t := s.g.t
	t.Helper()
	var err error
	if s.dir, err = s.mem.Open(s.host.Name()); err != nil {
		t.Fatal(err)
	}
	p := peer.New(peer.Options{
		Node: s.dir.Node(), Disk: s.dir.Disk(), Boot: s.dir.Boot(),
		Cluster: func() string { return "c" }, Lookup: s.g.lookup, Dial: s.host.Dial,
	})
	stream := consensus.NewStream(s.id(), consensus.PeerDialer(p))
	p.Handle(peer.Raft, stream.Handle)
	ln, err := s.host.Listen(s.host.Addr(port))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = p.Serve(ctx, ln) // Fails when the host crashes.
	}()
	if s.Raft, err = s.open(stream); err != nil {
		t.Fatal(err)
	}
	s.stop = func() {
		s.stop = nil
		late, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		if err := s.Shutdown(late); err != nil {
			t.Error(err)
		}
		cancel()
		<-served
		_ = s.dir.Close()
	}
}

func (s *server) open(stream *consensus.Stream) (*consensus.Raft, error) {
	stores, err := s.dir.OpenStores(disk.StoreOptions{})
	if err != nil {
		return nil, err
	}
	s.fsm, s.stream = &list{}, stream
	s.failed = make(chan error, 1)
	o := consensus.Options{
		ID: s.id(), Stream: stream, FSM: s.fsm, Stores: stores, Log: zerolog.Nop(),
		OnFailure: func(err error) { s.failed <- err },
	}
	if s.o != nil {
		s.o(&o)
	}
	return consensus.Open(o)
}

// crash ends the server as kill -9 does.
func (s *server) crash() {
	s.host.Crash()
	_ = s.mem.Crash()
	s.stop()
}

func (s *server) restart() {
	s.host = s.host.Restart()
	s.start()
}

func (g *group) until(what string, f func() bool) time.Duration {
	g.t.Helper()
	start := time.Now()
	for !f() {
		if time.Since(start) > 2*time.Minute {
			for _, s := range g.all {
				if s.stop == nil {
					continue
				}
				last, committed := s.Indexes()
				g.t.Logf("%s: term %d, leads %v, follows %q, last %d, committed %d, applied %d, entries %d, isolated %v, error %v",
					s.id(), s.Term(), s.IsLeader(), s.Leader(), last, committed, s.Applied(), len(s.fsm.have()), s.stream.Isolated(), s.Err())
			}
			g.t.Fatalf("not after two minutes: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(start)
}

// leader waits for a server that all servers in among follow, and returns it.
func (g *group) leader(among ...*server) *server {
	g.t.Helper()
	var l *server
	g.until("one leader", func() bool {
		l = nil
		for _, s := range among {
			if term, leads := s.Leadership(); leads {
				if l != nil {
					return false
				}
				l = s
				for _, o := range among {
					if o.Term() != term || o.Leader() != s.host.Name() {
						return false
					}
				}
			}
		}
		return l != nil
	})
	return l
}

func (g *group) apply(s *server, entries ...string) {
	g.t.Helper()
	for _, e := range entries {
		if err := s.Apply([]byte(e)); err != nil {
			g.t.Fatal(err)
		}
	}
}

// agree waits until all servers have the same entries, at least n, and returns how long that took.
func (g *group) agree(n int, among ...*server) time.Duration {
	g.t.Helper()
	return g.until("all have the same entries", func() bool {
		want := among[0].fsm.have()
		for _, s := range among {
			if s.fsm.broken {
				g.t.Fatal(s.host.Name() + " applied an entry twice")
			}
			if !slices.Equal(s.fsm.have(), want) {
				return false
			}
		}
		return len(want) >= n
	})
}

func without(all []*server, s *server) []*server {
	return slices.DeleteFunc(slices.Clone(all), func(o *server) bool { return o == s })
}

// anyServer reports that every server keeps up.
func anyServer(string) bool { return true }
