package node_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/node"
	"shardway/node/consensus"
	"shardway/node/findings"
	"shardway/node/selfcheck"
	"shardway/shardmap"
)

// forgery changes what the monitor of one node reads, from begin on. nil functions change nothing.
type forgery struct {
	statement func(*selfcheck.Statement)
	lease     func(granted time.Duration) time.Duration
	// hides reports whether a server is missing in the Raft configuration.
	hides func(server string) bool

	target atomic.Pointer[string] // name of the node
}

// begin makes the forgery affect a node.
func (f *forgery) begin(p *process) { f.target.Store(&p.name) }

// install makes the monitor of a node with these options read the forgery.
func (f *forgery) install(name string, o *findings.Options) {
	isTarget := func() bool { target := f.target.Load(); return target != nil && *target == name }
	readStatement, readServers := o.Statement, o.Servers
	o.Statement = func() selfcheck.Statement {
		statement := readStatement()
		if isTarget() && f.statement != nil {
			f.statement(&statement)
		}
		return statement
	}
	o.Servers = func() (voters, nonvoters []string) {
		voters, nonvoters = readServers()
		if isTarget() && f.hides != nil {
			return slices.DeleteFunc(voters, f.hides), slices.DeleteFunc(nonvoters, f.hides)
		}
		return voters, nonvoters
	}
	o.Agent = forgedLease{o.Agent, func(granted time.Duration) time.Duration {
		if isTarget() && f.lease != nil {
			return f.lease(granted)
		}
		return granted
	}}
}

// forgedLease is an agent that reports another end of the granted lease.
type forgedLease struct {
	findings.Agent
	change func(granted time.Duration) time.Duration
}

func (a forgedLease) LeaseGrantedUntil() time.Duration { return a.change(a.Agent.LeaseGrantedUntil()) }

// The self-check of a node finds each contradiction. Statements of other nodes come through the
// network.
func TestSelfCheckFindsContradictions(t *testing.T) {
	t.Parallel()
	followsX := func(s *selfcheck.Statement) { s.Leader = "x" }
	for _, c := range []struct {
		name  string
		forge func(f *forgery, leader, follower *process) (target *process)
		await func(w *world, leader, follower *process)
	}{
		{"a follower follows another leader in the same term", func(f *forgery, _, follower *process) *process {
			f.statement = followsX
			return follower
		}, func(w *world, leader, _ *process) {
			w.untilFindingsAre(leader, "two-leaders: nodes "+leader.name+" and x both led the cluster in term ")
		}},
		{"the leader claims that another node leads", func(f *forgery, leader, _ *process) *process {
			f.statement = followsX
			return leader
		}, func(w *world, leader, follower *process) {
			w.untilFindingsAre(follower, "two-leaders: nodes "+leader.name+" and x both led the cluster in term ")
		}},
		{"a follower has another map of the same epoch", func(f *forgery, _, follower *process) *process {
			f.statement = func(s *selfcheck.Statement) { s.Digest = strings.Repeat("0", len(s.Digest)) }
			return follower
		}, func(w *world, leader, follower *process) {
			w.untilFindingsAre(leader, "two-owners: nodes "+leader.name+" and "+follower.name+" have different shard maps of epoch ")
		}},
		{"a lease ends later than granted", func(f *forgery, _, follower *process) *process {
			f.lease = func(granted time.Duration) time.Duration { return granted - 2*time.Second }
			return follower
		}, func(w *world, _, follower *process) {
			w.untilFindingsAre(follower, "lease-too-long: the lease of node "+follower.name+" ended ", "later than the leader had granted it", "restart node "+follower.name)
		}},
		{"an owner is not a member", func(f *forgery, leader, follower *process) *process {
			f.hides = func(server string) bool { return consensus.NodeOf(server) == follower.name }
			return leader
		}, func(w *world, leader, follower *process) {
			w.untilFindingsAre(leader, "owner-not-member: "+follower.name+" owns shards and is not in the cluster", "step-down")
		}},
		{"the leader is not a voter", func(f *forgery, leader, follower *process) *process {
			f.hides = func(server string) bool { return consensus.NodeOf(server) == leader.name }
			return follower
		}, func(w *world, leader, follower *process) {
			w.untilFindingsAre(follower, "leader-not-member: node "+leader.name+" leads the cluster and is not one of its voters")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *world) {
				w.forgery = &forgery{}
				for _, node := range []string{"a", "b", "c"} {
					w.start(node)
				}
				w.untilSettled("a", "b", "c")
				w.untilVoters(3)
				leader, follower := w.leader(), w.follower()
				w.forgery.begin(c.forge(w.forgery, leader, follower))
				c.await(w, leader, follower)
			})
		})
	}
}

// Elections, a drain, a join, a removal, a crash and a restart cause no contradiction. The world checks that for each
// node of each test.
func TestSelfCheckReportsNothingDuringOrdinaryChanges(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		for range 3 {
			killed := w.leader()
			killed.kill()
			w.until("there is another leader", func() bool { return w.leader() != nil })
			killed.restart()
			w.untilSettled("a", "b", "c")
		}
		w.start("d")
		w.untilSettled("a", "b", "c", "d")
		w.untilVoters(4)
		gone := w.follower()
		gone.kill()
		w.asks(w.leader(), api.Action{Verb: api.Remove, Node: gone.name, Force: true})
		w.until("the map excludes it", func() bool { return !w.committed().IsMember(shardmap.NodeID(gone.name)) })
		time.Sleep(time.Minute)
		for _, p := range w.running() {
			w.wantNoContradiction(p)
		}
	})
}

// A follower that was isolated reports no leader outside the cluster. In that time the leader was added, so the log
// of the follower does not contain it until its slow disk has written the entries.
func TestSelfCheckReportsNothingAfterAPartition(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		isolated := w.follower()
		if isolated.name == "a" { // the next node joins it
			w.asks(w.leader(), api.Action{Verb: api.StepDown, To: "a"})
			w.until("a leads", func() bool { return w.leader() == w.all["a"] })
			isolated = w.follower()
		}
		rest := append(w.others(isolated), "d")
		w.net.Partition([]string{isolated.name}, rest)
		w.start("d")
		d := w.all["d"]
		w.until("d leads", func() bool {
			leader := w.leader()
			if leader != d && leader != nil {
				_ = leader.node.API().Do(w.t.Context(), api.Action{Verb: api.StepDown, To: "d"}) // refused until d votes
			}
			return d.node.Leads()
		})
		time.Sleep(30 * time.Second)
		isolated.disk.slow(7 * time.Second)
		w.net.Heal()
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			w.wantNoContradiction(isolated)
		}
		isolated.disk.slow(0)
		w.untilSettled("a", "b", "c", "d")
	})
}

// The map keeps an owner that has left the cluster if no other node can own shards. That is no contradiction.
func TestSelfCheckReportsNothingWithoutAnotherOwner(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		ends func(w *world, owner *process)
	}{
		{"it was removed", func(w *world, owner *process) {
			owner.kill()
			w.until("another node leads", func() bool { return w.leader() != nil })
			w.asks(w.leader(), api.Action{Verb: api.Remove, Node: owner.name, Force: true})
		}},
		{"it has stopped", func(_ *world, owner *process) { owner.terminate() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *world) {
				w.start("a")
				w.tune = func(o *node.Options) { o.Gateway, o.CheckApp, o.Proxy.DialUpstream = true, nil, nil }
				for _, gateway := range []string{"b", "c", "d"} {
					w.start(gateway)
				}
				w.untilSettled("a")
				w.untilVoters(4)
				c.ends(w, w.all["a"])
				time.Sleep(time.Minute)
				if !w.committed().IsMember("a") {
					w.t.Error("the map does not keep its only owner")
				}
			})
		})
	}
}
