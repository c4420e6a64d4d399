package membership_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/ack/join"
	"shardway/ack/leader"
	"shardway/internal/clock"
	"shardway/node/consensus"
	"shardway/node/gossip"
	"shardway/node/membership"
	"shardway/shardmap"
)

// cluster is the environment of a Reconciler and records its changes, in one synctest bubble.
type cluster struct {
	t      *testing.T
	keeper *membership.Reconciler

	mu        sync.Mutex
	servers   []consensus.Server
	members   []gossip.Member
	heard     map[string]leader.MemberView
	committed *shardmap.Map
	disks     map[string]string // disk that each node reports
	knows     map[string]ack.FormatVersion
	level     ack.FormatVersion // current level
	done      []string
	joins     join.Records
	deaf      string // node that does not respond; set before gossip shows the node
}

const spareVoters, deadAfter, finalizeAfter = 3, 10 * time.Second, time.Minute

// runReconciler runs f while a Reconciler is running. All servers are alive and send heartbeats. Upper-case letters are voters.
func runReconciler(t *testing.T, nodes string, f func(c *cluster)) {
	t.Helper()
	runReconcilerWithVoters(t, spareVoters, nodes, f)
}

// runReconcilerWithVoters is runReconciler with this value of --max-voters.
func runReconcilerWithVoters(t *testing.T, voters int, nodes string, f func(c *cluster)) {
	t.Helper()
	runReconcilerWith(t, voters, deadAfter, nodes, f)
}

// runReconcilerWith is runReconcilerWithVoters with a value of --remove-dead-after.
func runReconcilerWith(t *testing.T, voters int, dead time.Duration, nodes string, f func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, heard: map[string]leader.MemberView{}, disks: map[string]string{}, committed: shardmap.New(8), level: 1, knows: map[string]ack.FormatVersion{}}
		for _, n := range nodes {
			node := strings.ToLower(string(n))
			c.servers = append(c.servers, consensus.Server{ID: node + "/1", Voter: string(n) != node})
			c.shows(node, gossip.Alive)
			c.addHeartbeat(node, nil)
		}
		ctx, stop := context.WithCancel(t.Context())
		pulse := new(clock.Scheduler)
		go pulse.Run(ctx)
		k := membership.NewReconciler(membership.ReconcilerOptions{
			Scheduler: pulse,
			Raft:      c, Gossip: c, Server: "a/1", MaxVoters: voters, RemoveDeadAfter: dead, Log: zerolog.Nop(),
			Identify: func(_ context.Context, node string) (membership.Process, error) {
				if node == c.deaf {
					return membership.Process{}, errDown
				}
				return c.process(node), nil
			},
			Ready: func() bool { return true }, ProposeLevel: c.raise, Term: 1, FinalizeAfter: finalizeAfter,
			MemberViews: func(context.Context) ([]leader.MemberView, bool) { return c.views(), true },
			State:       func() membership.State { return c },
		})
		c.keeper = k
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			k.Run(ctx, nil)
		}()
		f(c)
		stop()
		<-ended
	})
}

// Bootstrapped, ClusterID, FormatVersion and Committed implement membership.State.
func (c *cluster) Bootstrapped() bool { return true }
func (c *cluster) ClusterID() string  { return "x" }
func (c *cluster) Joins() join.Records {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.joins
}

func (c *cluster) FormatVersion() ack.FormatVersion {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.level
}

func (c *cluster) Committed() *shardmap.Map {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.committed
}

// settles commits a map with epoch 2.
func (c *cluster) settles() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.committed = shardmap.New(8).WithEpoch(c.committed, 2)
}

func (c *cluster) process(node string) membership.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return membership.Process{Disk: c.disks[node], Boot: 1, Nonce: c.heard[node].Heartbeat.Nonce, Level: c.knows[node]}
}

// raise applies a proposed level.
func (c *cluster) raise([]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.level++
	c.done = append(c.done, fmt.Sprintf("format version %d", c.level))
	return nil
}

func (c *cluster) shows(node string, s gossip.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members = slices.DeleteFunc(c.members, func(m gossip.Member) bool { return m.ID == node })
	c.members = append(c.members, gossip.Member{
		ID: node, Node: true, Status: s, Addr: netip.MustParseAddrPort("10.0.0.1:1"), Tags: gossip.Tags{Node: node, Disk: "1"},
	})
	if s == gossip.Alive {
		c.disks[node], c.knows[node] = "1", max(c.knows[node], 1)
	}
}

// addHeartbeat simulates heartbeats of a node, modified by with if it is not nil.
func (c *cluster) addHeartbeat(node string, with func(v *leader.MemberView)) {
	v := leader.MemberView{Node: shardmap.NodeID(node), LinkWorks: true, Heartbeat: ack.Heartbeat{Node: shardmap.NodeID(node), Server: node + "/1", Boot: 1}}
	if with != nil {
		with(&v)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard[node] = v
}

// crashes stops nodes: their heartbeats end, and gossip shows them as failed.
func (c *cluster) crashes(nodes ...string) {
	for _, node := range nodes {
		c.addHeartbeat(node, silent)
		c.shows(node, gossip.Failed)
	}
}

// replaced restarts a node with another disk. No process runs on the old disk.
func (c *cluster) replaced(node, disk string) {
	c.addHeartbeat(node, func(v *leader.MemberView) { v.Silent, v.ProcessGone = true, true })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disks[node] = disk
	for i := range c.members {
		if c.members[i].ID == node {
			c.members[i].Tags.Disk = disk
		}
	}
}

func silent(v *leader.MemberView) { v.Silent = true }

func (c *cluster) views() (out []leader.MemberView) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.heard {
		out = append(out, v)
	}
	return out
}

// after verifies the changes made within d.
func (c *cluster) after(d time.Duration, want ...string) {
	c.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.done, want) {
		c.t.Errorf("within %v it did %v, want %v", d, c.done, want)
	}
	c.done = nil
}

func (c *cluster) Configuration() []consensus.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.servers)
}

func (c *cluster) Members() []gossip.Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.members)
}

func (c *cluster) AddNonvoter(server string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = append(c.done, "add "+server)
	c.servers = append(c.servers, consensus.Server{ID: server})
	return nil
}

func (c *cluster) Promote(server string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = append(c.done, "promote "+server)
	c.servers[c.at(server)].Voter = true
	return nil
}

func (c *cluster) Demote(server string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = append(c.done, "demote "+server)
	c.servers[c.at(server)].Voter = false
	return nil
}

func (c *cluster) Remove(server string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = append(c.done, "remove "+server)
	c.servers = slices.Delete(c.servers, c.at(server), c.at(server)+1)
	return nil
}

func (c *cluster) at(server string) int {
	i := slices.IndexFunc(c.servers, func(s consensus.Server) bool { return s.ID == server })
	if i < 0 {
		panic("no server " + server)
	}
	return i
}

// Without heartbeats of a majority, this leader may be partitioned, and the other voters may elect
// another leader.
func TestVoterIsRemovedOnlyWhileQuorumIsConnected(t *testing.T) {
	runReconciler(t, "ABCD", func(c *cluster) {
		c.crashes("c", "d")
		c.after(10 * deadAfter)
		c.addHeartbeat("c", nil)
		c.after(time.Second, "remove d/1")
	})
}

// Gossip is ignored for a node that sends heartbeats, because gossip messages can be replayed.
func TestServerWithHeartbeatsIsNotRemoved(t *testing.T) {
	runReconcilerWithVoters(t, 4, "ABCDe", func(c *cluster) {
		c.shows("d", gossip.Failed)
		c.shows("e", gossip.Left)
		c.after(10 * deadAfter)
		c.addHeartbeat("d", silent)
		c.after(deadAfter / 2)
		c.addHeartbeat("d", nil) // the time starts again
		c.after(time.Second)
		c.addHeartbeat("d", silent)
		c.after(deadAfter - time.Second)
		c.after(2*time.Second, "promote e/1", "remove d/1")
	})
}

// A non-voter that gossip still shows would be added again.
func TestNonvoterThatGossipShowsIsNotRemoved(t *testing.T) {
	runReconciler(t, "ABCd", func(c *cluster) {
		c.addHeartbeat("d", silent)
		c.after(10 * deadAfter)
		c.shows("d", gossip.Failed)
		c.after(time.Second, "remove d/1")
	})
}

// A new vote counts immediately: a voter that lacks entries would delay the next commit, and a voter
// without a working link the next lease.
func TestNonvoterIsPromotedOnlyWhenCaughtUp(t *testing.T) {
	for name, lacks := range map[string]func(v *leader.MemberView){
		"has not applied the map":  func(v *leader.MemberView) { v.Heartbeat.Acked = 2 },
		"has not acknowledged it":  func(v *leader.MemberView) { v.Heartbeat.Applied = 2 },
		"is leaving":               func(v *leader.MemberView) { v.Heartbeat.Applied, v.Heartbeat.Acked, v.Heartbeat.Leaving = 2, 2, true },
		"has said goodbye":         func(v *leader.MemberView) { v.Heartbeat.Applied, v.Heartbeat.Acked, v.Heartbeat.Goodbye = 2, 2, true },
		"echoes nothing":           func(v *leader.MemberView) { v.Heartbeat.Applied, v.Heartbeat.Acked, v.LinkWorks = 2, 2, false },
		"is not heard":             func(v *leader.MemberView) { v.Heartbeat.Applied, v.Heartbeat.Acked, v.Silent = 2, 2, true },
		"is heard of another disk": func(v *leader.MemberView) { v.Heartbeat.Applied, v.Heartbeat.Acked, v.Heartbeat.Server = 2, 2, "c/2" },
	} {
		t.Run(name, func(t *testing.T) {
			runReconciler(t, "ABc", func(c *cluster) {
				c.addHeartbeat("c", lacks)
				c.settles()
				c.after(10 * time.Second)
				c.addHeartbeat("c", func(v *leader.MemberView) { v.Heartbeat.Applied, v.Heartbeat.Acked = 2, 2 })
				c.after(time.Second, "promote c/1")
			})
		})
	}
}

// Three voters in one zone would all be lost with the zone, although another zone has nodes.
func TestNonvoterOfUncoveredZoneIsPromotedFirst(t *testing.T) {
	in := func(zone string) func(v *leader.MemberView) {
		return func(v *leader.MemberView) {
			v.Heartbeat.Applied, v.Heartbeat.Acked, v.Heartbeat.Zone = 2, 2, zone
		}
	}
	runReconciler(t, "ABcd", func(c *cluster) {
		c.addHeartbeat("a", in("x"))
		c.addHeartbeat("b", in("x"))
		c.addHeartbeat("c", in("x"))
		c.addHeartbeat("d", in("y"))
		c.settles()
		c.after(time.Second, "promote d/1")
	})
	runReconciler(t, "ABcd", func(c *cluster) { // there is no other zone
		for _, node := range []string{"a", "b", "c", "d"} {
			c.addHeartbeat(node, in("x"))
		}
		c.settles()
		c.after(time.Second, "promote c/1")
	})
}

// Two of three voters are gone at the same time, one of them with its disk replaced. Removing that one
// immediately would need the vote of the other: nothing could be committed any more, although the old
// disk still exists.
func TestVoterWithReplacedDiskIsRemovedOnlyWithQuorumOfOthers(t *testing.T) {
	runReconciler(t, "ABC", func(c *cluster) {
		c.crashes("b")
		c.replaced("c", "2")
		c.after(deadAfter / 2)
		c.addHeartbeat("b", nil)
		c.after(time.Second, "remove c/1", "add c/2")
	})
	runReconciler(t, "AB", func(c *cluster) { // no other voter is needed
		c.replaced("b", "2")
		c.after(time.Second, "remove b/1", "add b/2")
	})
}

// None of three voters is removed automatically: two voters tolerate no further failure, and the Raft
// library can block when two voters become one.
func TestThreeVotersAlwaysRemain(t *testing.T) {
	runReconciler(t, "ABC", func(c *cluster) {
		c.crashes("c")
		c.after(10 * deadAfter)
		// A non-voter is promoted first.
		c.shows("d", gossip.Alive)
		c.addHeartbeat("d", nil)
		c.after(time.Second, "add d/1", "promote d/1", "remove c/1")
		c.crashes("b")
		c.after(10 * deadAfter)
	})
}

// A dead voter that returns right after its replacement was promoted must lose its vote again.
// Otherwise the cluster would permanently have more voters than --max-voters.
func TestSurplusVoterIsDemoted(t *testing.T) {
	runReconciler(t, "ABCDe", func(c *cluster) { // d has replaced c
		c.after(time.Second, "demote d/1")
	})
	runReconciler(t, "ABCD", func(c *cluster) { // not while a vote may be needed
		c.addHeartbeat("b", silent)
		c.after(deadAfter / 2)
		c.addHeartbeat("b", func(v *leader.MemberView) { v.LinkWorks = false })
		c.after(time.Second)
		c.addHeartbeat("b", nil)
		c.after(time.Second, "demote d/1")
	})
	in := func(zone string) func(v *leader.MemberView) {
		return func(v *leader.MemberView) { v.Heartbeat.Zone = zone }
	}
	runReconciler(t, "BCDA", func(c *cluster) { // the leader and the only voter of a zone stay
		c.addHeartbeat("a", in("x"))
		c.addHeartbeat("b", in("x"))
		c.addHeartbeat("c", in("x"))
		c.addHeartbeat("d", in("y"))
		c.after(time.Second, "demote c/1")
	})
	runReconciler(t, "ABC", func(c *cluster) { c.after(time.Minute) })
}

// A stopping voter leaves only if three other voters remain that send heartbeats and are not leaving. So stopping a whole cluster does not
// change its configuration.
func TestVoterMayLeaveOnlyIfThreeRemain(t *testing.T) {
	for _, c := range []struct {
		servers string
		gone    func(v *leader.MemberView) // modifies the view of b
		want    bool
	}{
		{servers: "ABCD", want: true},
		{servers: "ABC"},
		{servers: "ABCD", gone: silent},
		{servers: "ABCD", gone: func(v *leader.MemberView) { v.Heartbeat.Leaving = true }},
		{servers: "ABCD", gone: func(v *leader.MemberView) { v.Heartbeat.Goodbye = true }},
		{servers: "ABCD", gone: func(v *leader.MemberView) { v.Heartbeat.Server = "b/2" }},
		{servers: "aBCD", want: true}, // a is a non-voter
		{servers: "BCD"},              // a is not a server
	} {
		runReconciler(t, c.servers, func(x *cluster) {
			x.addHeartbeat("b", c.gone)
			v := membership.View{Servers: membership.ServersOf(x.servers), MemberViews: x.views()}
			if got := v.CanRemove("a/1"); got != c.want {
				t.Errorf("a of %s may leave: %v, want %v", c.servers, got, c.want)
			}
		})
	}
}
