package simnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"shardway/internal/simnet"
	"shardway/peer"
)

const peerPort = 7947

// layer is Raft's view of the peer port: addresses are "node/disk".
type layer struct {
	net.Listener
	port *peer.Port
}

var _ raft.StreamLayer = (*layer)(nil)

func (l *layer) Dial(a raft.ServerAddress, d time.Duration) (net.Conn, error) {
	node, disk, _ := strings.Cut(string(a), "/")
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return l.port.DialServer(ctx, node, disk, peer.Raft)
}

// counter is a state machine that counts its entries.
type counter struct{ n int }

func (c *counter) Apply(*raft.Log) any                 { c.n++; return c.n }
func (c *counter) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("none") }
func (c *counter) Restore(r io.ReadCloser) error       { return r.Close() }

// voter is one Raft server on a host; its store outlives its process.
type voter struct {
	id     raft.ServerID
	host   *simnet.Host
	lookup func(node string) (string, bool)
	store  *raft.InmemStore
	snaps  *raft.InmemSnapshotStore
	*raft.Raft
	transport *raft.NetworkTransport
	stop      func()
}

// start runs the peer port and Raft on v's host.
func (v *voter) start(t *testing.T, boot uint64) {
	t.Helper()
	p := peer.New(peer.Options{
		Node: v.host.Name(), Disk: "disk-" + v.host.Name(), Boot: boot,
		Cluster: func() string { return "c1" },
		Lookup:  v.lookup, Dial: v.host.Dial,
	})
	ln, err := v.host.Listen(v.host.Addr(peerPort))
	if err != nil {
		t.Fatal(err)
	}
	l := &layer{Listener: p.Listener(peer.Raft, ln.Addr()), port: p}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, ln) }()
	v.transport = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: l, MaxPool: 3, MaxRPCsInFlight: 1, Timeout: 2 * time.Second, Logger: hclog.NewNullLogger(),
	})
	c := raft.DefaultConfig()
	c.LocalID = v.id
	c.Logger = hclog.NewNullLogger()
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = 500*time.Millisecond, 500*time.Millisecond, 250*time.Millisecond
	v.Raft, err = raft.NewRaft(c, &counter{}, v.store, v.store, v.snaps, v.transport)
	if err != nil {
		t.Fatal(err)
	}
	v.stop = func() {
		if err := v.Shutdown().Error(); err != nil {
			t.Error(err)
		}
		_ = v.transport.Close()
		v.transport.CloseStreams()
		cancel()
		if err := <-served; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
}

// quorum returns three voters, each on a host of its own. They end with the
// test's bubble.
func quorum(t *testing.T, c simnet.Config) (*simnet.Net, []*voter) {
	t.Helper()
	network := simnet.New(c)
	addrs := map[string]string{}
	var vs []*voter
	var conf raft.Configuration
	for _, name := range []string{"a", "b", "c"} {
		v := &voter{host: network.Host(name), store: raft.NewInmemStore(), snaps: raft.NewInmemSnapshotStore()}
		v.id = raft.ServerID(name + "/disk-" + name)
		v.lookup = func(node string) (string, bool) { a, ok := addrs[node]; return a, ok }
		addrs[name] = v.host.Addr(peerPort)
		conf.Servers = append(conf.Servers, raft.Server{ID: v.id, Address: raft.ServerAddress(v.id)})
		vs = append(vs, v)
	}
	for _, v := range vs {
		v.start(t, 1)
	}
	t.Cleanup(func() {
		network.Close()
		for _, v := range vs {
			v.stop()
		}
	})
	if err := vs[0].BootstrapCluster(conf).Error(); err != nil {
		t.Fatal(err)
	}
	return network, vs
}

// leads waits until exactly one of vs leads and the others follow it.
func leads(t *testing.T, vs ...*voter) *voter {
	t.Helper()
	var leader *voter
	until(t, "one leader", func() bool {
		leader = nil
		for _, v := range vs {
			if v.State() == raft.Leader {
				leader = v
			}
		}
		if leader == nil {
			return false
		}
		for _, v := range vs {
			if _, id := v.LeaderWithID(); id != leader.id || v.CurrentTerm() != leader.CurrentTerm() {
				return false
			}
		}
		return true
	})
	return leader
}

// without returns vs except v.
func without(vs []*voter, v *voter) []*voter {
	var rest []*voter
	for _, o := range vs {
		if o != v {
			rest = append(rest, o)
		}
	}
	return rest
}

func apply(t *testing.T, v *voter, times int) {
	t.Helper()
	for range times {
		if err := v.Apply([]byte("x"), time.Second).Error(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRaftElectsAndSurvivesLeaderCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, vs := quorum(t, simnet.Config{})
		start := time.Now()
		first := leads(t, vs...)
		t.Logf("leader after %v", time.Since(start))
		apply(t, first, 100)
		first.host.Crash()
		start = time.Now()
		rest := without(vs, first)
		second := leads(t, rest...)
		t.Logf("next leader after %v", time.Since(start))
		apply(t, second, 100)

		first.stop()
		first.host = first.host.Restart()
		first.start(t, 2)
		until(t, "the crashed one follows and has it all", func() bool {
			return first.State() == raft.Follower && first.AppliedIndex() == second.AppliedIndex()
		})
	})
}

func TestRaftMinorityLeaderStepsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, vs := quorum(t, simnet.Config{UserTimeout: 5 * time.Second})
		first := leads(t, vs...)
		network.Isolate(first.host.Name())
		second := leads(t, without(vs, first)...)
		until(t, "the old leader steps down", func() bool { return first.State() != raft.Leader })
		apply(t, second, 10)
		time.Sleep(time.Minute)
		network.Heal()
		last := leads(t, vs...)
		until(t, "the cut-off one has caught up", func() bool { return first.AppliedIndex() == last.AppliedIndex() })
		apply(t, last, 10)
	})
}

func TestRaftFrozenLeaderIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, vs := quorum(t, simnet.Config{Link: simnet.Link{Latency: time.Millisecond}})
		first := leads(t, vs...)
		apply(t, first, 10)
		first.host.Freeze()
		second := leads(t, without(vs, first)...)
		apply(t, second, 10)
		first.host.Thaw()
		apply(t, leads(t, vs...), 10)
	})
}
