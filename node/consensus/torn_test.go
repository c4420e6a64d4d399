package consensus_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"shardway/internal/simnet"
	"shardway/node/consensus"
	"shardway/peer"
)

// The library writes the term of a vote and its candidate separately (hashicorp/raft issue 661). Once, a voter that was killed between the
// two had, on disk, voted in the new term for the candidate of the previous one. The library grants a repeated vote without a check of the
// log, so an old leader without committed entries got a majority. This test kills the voter before each write of a vote, and after the last
// one. Then the previous candidate requests the vote with an old log.
func TestVoterKilledAnywhereInAVoteGrantsOnlyByTheLog(t *testing.T) {
	for before, through := 0, false; !through; before++ {
		if before > 8 {
			t.Fatal("a vote takes more than 8 writes")
		}
		bubble(t, abc(), nil, func(g *group) { through = tornVote(g, before) })
	}
}

// tornVote kills voter c of a, b and c after the given number of writes of a vote. through reports whether the vote was granted before
// that.
func tornVote(g *group, writes int) (through bool) {
	t := g.t
	t.Helper()
	a, b, c := g.all[0], g.all[1], g.all[2]
	g.apply(a, numbered(3)...)
	g.agree(3, g.all...)
	last, _ := c.Indexes()
	term := c.Term()
	a.crash()
	b.crash()
	whole := raft.RequestVoteRequest{LastLogIndex: last, LastLogTerm: term}
	for _, s := range []*server{a, b} {
		s.host = s.host.Restart()
	}
	if !a.canvass(c, term+1, whole) {
		t.Fatal("no vote for a whole log")
	}
	left := writes
	c.mem.SetStoreFault(func(string) error {
		if left--; left < 0 {
			return errors.New("killed")
		}
		return nil
	})
	through = b.canvass(c, term+2, whole)
	c.mem.SetStoreFault(nil)
	c.crash()
	c.restart()
	if a.canvass(c, term+2, raft.RequestVoteRequest{LastLogIndex: 1, LastLogTerm: 1}) {
		t.Errorf("killed after %d writes of a vote for b, the voter votes for a, whose log lacks committed entries", writes)
	}
	if !b.canvass(c, term+2, whole) {
		t.Errorf("killed after %d writes of a vote for b, the voter has no vote for b any more", writes)
	}
	return through
}

// canvass requests the vote of voter as a server whose process is not running. It reports whether the vote is granted.
func (s *server) canvass(voter *server, term uint64, req raft.RequestVoteRequest) bool {
	s.g.t.Helper()
	p := peer.New(peer.Options{
		Node: s.dir.Node(), Disk: s.dir.Disk(), Boot: s.dir.Boot(),
		Cluster: func() string { return "c" }, Lookup: s.g.lookup, Dial: s.host.Dial,
	})
	l := &dialOnly{host: s.host, port: p, voter: voter}
	tr := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: l, Timeout: 2 * time.Second, Logger: hclog.NewNullLogger()})
	defer func() { _ = tr.Close() }()
	id := s.id()
	req.RPCHeader = raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: []byte(id)}
	req.Term, req.LeadershipTransfer = term, true // also counts at a voter that has a leader
	var resp raft.RequestVoteResponse
	err := tr.RequestVote(raft.ServerID(voter.id()), raft.ServerAddress(voter.id()), &req, &resp)
	return err == nil && resp.Granted
}

// dialOnly is a stream layer that only dials. It accepts no connections.
type dialOnly struct {
	host  *simnet.Host
	port  *peer.Port
	voter *server
	raft.StreamLayer
}

func (d *dialOnly) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	return consensus.PeerDialer(d.port)(context.Background(), d.voter.dir.Node(), d.voter.dir.Disk())
}

func (d *dialOnly) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (d *dialOnly) Close() error              { return nil }
func (d *dialOnly) Addr() net.Addr            { return nil }

// journal is a stable store that records what was written.
type journal struct {
	*raft.InmemStore
	mu   sync.Mutex
	keys []string
}

func (j *journal) note(key []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.keys = append(j.keys, string(key))
}

func (j *journal) Set(key, val []byte) error {
	j.note(key)
	return j.InmemStore.Set(key, val)
}

func (j *journal) SetUint64(key []byte, val uint64) error {
	j.note(key)
	return j.InmemStore.SetUint64(key, val)
}

// This test fails when the library is fixed, or writes votes in another order. Then node/disk/votes.go must be removed or changed.
func TestLibraryWritesAVoteInTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{InmemStore: raft.NewInmemStore()}
		addr, trans := raft.NewInmemTransport("a")
		o := raft.DefaultConfig()
		o.LocalID, o.Logger = "a", hclog.NewNullLogger()
		r, err := raft.NewRaft(o, (*raft.MockFSM)(nil), j.InmemStore, j, raft.NewInmemSnapshotStore(), trans)
		if err != nil {
			t.Fatal(err)
		}
		r.BootstrapCluster(raft.Configuration{Servers: []raft.Server{{ID: "a", Address: addr}}})
		for r.State() != raft.Leader {
			time.Sleep(time.Millisecond)
		}
		if err := r.Shutdown().Error(); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(j.keys, " ")
		if want := "CurrentTerm LastVoteTerm LastVoteCand"; !strings.HasSuffix(got, want) {
			t.Errorf("raft writes %q for its first vote, want it to end with %q: it votes otherwise now, see node/disk/votes.go", got, want)
		}
	})
}
