package consensus_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"shardway/node/consensus"
)

func abc() []string { return []string{"a", "b", "c"} }

func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint("e", i)
	}
	return out
}

func TestServersJoinAndVote(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		want := []string{g.all[0].id(), g.all[1].id(), g.all[2].id()}
		for _, s := range g.all {
			g.until("sees three voters", func() bool { return slices.Equal(s.Voters(), want) })
		}
		if err := g.all[0].Bootstrap(); err == nil {
			t.Error("bootstrapped a second time")
		}
		if err := g.all[1].Apply([]byte("x")); !errors.Is(err, consensus.ErrNotLeader) {
			t.Errorf("Apply at a follower: %v, want ErrNotLeader", err)
		}
		if err := g.all[0].Remove(g.all[2].id()); err != nil {
			t.Fatal(err)
		}
		if got := g.all[0].Voters(); !slices.Equal(got, want[:2]) {
			t.Errorf("Voters() = %v, want %v", got, want[:2])
		}
	})
}

// The list of voters is updated after each change of the configuration, also if the number of servers stays the same. It is sorted by id.
func TestVotersAreThoseOfTheLatestConfiguration(t *testing.T) {
	bubble(t, []string{"c", "a", "b"}, nil, func(g *group) {
		leader, a, b := g.all[0], g.all[1], g.all[2]
		votes := func(want ...string) {
			g.t.Helper()
			for range 2 { // the second time it is cached
				if got := leader.Voters(); !slices.Equal(got, want) {
					g.t.Errorf("Voters() = %v, want %v", got, want)
				}
			}
			g.until("a follower knows", func() bool { return slices.Equal(a.Voters(), want) })
		}
		does := func(err error) {
			g.t.Helper()
			if err != nil {
				g.t.Fatal(err)
			}
		}
		votes(a.id(), b.id(), leader.id())
		does(leader.Demote(b.id()))
		votes(a.id(), leader.id())
		does(leader.Promote(b.id()))
		votes(a.id(), b.id(), leader.id())
		does(leader.Remove(b.id()))
		votes(a.id(), leader.id())
	})
}

// Followers apply entries soon after the leader. Without the nudge they apply them seconds later.
func TestFollowersApplyAtOnce(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		l := g.leader(g.all...)
		time.Sleep(time.Second)
		for i := range 20 {
			g.apply(l, strconv.Itoa(i))
			if d := g.agree(i+1, g.all...); d > 5*time.Millisecond {
				t.Errorf("entry %d applied everywhere %v after Apply returned", i, d)
			}
			time.Sleep(37 * time.Millisecond)
		}
	})
}

func TestBarrierComesAfterWhatWasCommitted(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		l := g.leader(g.all...)
		g.apply(l, numbered(10)...)
		n := l
		for range 10 { // a leader that transfers leadership may be elected again, in the term after the next
			if err := n.Transfer(anyServer); err != nil {
				t.Fatal(err)
			}
			if n = g.leader(g.all...); n != l {
				break
			}
		}
		if n == l {
			t.Fatal("leadership stayed")
		}
		if err := n.Barrier(); err != nil {
			t.Fatal(err)
		}
		if got := len(n.fsm.have()); got != 10 {
			t.Errorf("new leader has %d entries after its barrier, want 10", got)
		}
	})
}

// A transfer of leadership finds a live voter, although the library may pick a dead one.
func TestTransferFindsALivingVoter(t *testing.T) {
	for dead := range 2 {
		bubble(t, abc(), nil, func(g *group) {
			t := g.t
			l := g.leader(g.all...)
			g.apply(l, "x")
			time.Sleep(time.Second)
			rest := without(g.all, l)
			rest[dead].crash()
			if err := l.Transfer(anyServer); err != nil {
				t.Errorf("Transfer: %v", err)
			}
			if n := g.leader(l, rest[1-dead]); n != rest[1-dead] {
				t.Errorf("%s leads", n.host.Name())
			}
		})
	}
}

// A leader that is replaced while it waits for the log of the chosen voter must not make that voter
// campaign: the campaign would depose the new leader.
func TestTransferSendsNothingAfterLeadershipIsLost(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		l := g.leader(g.all...)
		slow, next := without(g.all, l)[0], without(g.all, l)[1]
		resume := make(chan struct{})
		slow.mem.SetStoreFault(func(string) error {
			<-resume
			return nil
		})
		g.apply(l, "x")
		transferred := make(chan error, 1)
		go func() { transferred <- l.TransferTo(slow.id()) }()
		time.Sleep(50 * time.Millisecond) // the transfer waits for the log of slow
		if err := next.Campaign(); err != nil {
			t.Fatal(err)
		}
		g.until("the other voter leads", next.IsLeader)
		term := next.Term()
		time.Sleep(50 * time.Millisecond)
		slow.mem.SetStoreFault(nil)
		close(resume)
		if err := <-transferred; err != nil {
			t.Errorf("Transfer: %v", err)
		}
		time.Sleep(2 * time.Second)
		if now, leads := next.Leadership(); !leads || now != term {
			t.Errorf("the new leader leads %v in term %d, want it to lead in term %d", leads, now, term)
		}
	})
}

func TestLeadershipIsALevel(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		l := g.leader(g.all...)
		before := l.Term()
		for range 3 {
			if err := l.TransferTo(without(g.all, l)[0].id()); err != nil {
				t.Fatal(err)
			}
			select {
			case <-l.Changed():
			case <-time.After(time.Minute):
				t.Fatal("no hint of a lost leadership")
			}
			l = g.leader(g.all...)
		}
		if l.Term() < before+3 {
			t.Errorf("term %d after three leaderships, was %d", l.Term(), before)
		}
	})
}

func TestCrashedLeaderIsReplacedAndReturns(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		l := g.leader(g.all...)
		g.apply(l, numbered(5)...)
		l.crash()
		rest := without(g.all, l)
		n := g.leader(rest...)
		g.apply(n, "after")
		l.restart()
		if l.StartedEmpty() {
			t.Error("a restarted server says that it is new")
		}
		g.agree(6, g.all...)
	})
}

// A returning follower does not wait for the backoff of the library, which doubles after each failed dial, up to 10 s.
func TestReturningFollowerDoesNotWait(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		l := g.leader(g.all...)
		f := without(g.all, l)[0]
		f.crash()
		for i := range 60 {
			g.apply(l, strconv.Itoa(i))
			time.Sleep(time.Second)
		}
		f.restart()
		if d := g.agree(60, g.all...); d > 500*time.Millisecond {
			t.Errorf("caught up after %v", d)
		}
	})
}

// A server that has cut itself off accepts streams and closes them. To the library this is an error like any other, with a backoff of up to
// 10 s afterwards.
func TestFollowerThatCutItselfOffDoesNotWait(t *testing.T) {
	for _, off := range []time.Duration{13 * time.Second, 16 * time.Second, 40 * time.Second} {
		bubble(t, abc(), nil, func(g *group) {
			l := g.leader(g.all...)
			f := without(g.all, l)[0]
			f.stream.Isolate(true)
			g.apply(l, "meanwhile")
			time.Sleep(off)
			f.stream.Isolate(false)
			if d := g.agree(1, g.all...); d > 500*time.Millisecond {
				g.t.Errorf("cut off for %v, caught up %v after that", off, d)
			}
		})
	}
}

func TestCampaignReplacesACrashedLeaderAtOnce(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		l := g.leader(g.all...)
		g.apply(l, numbered(3)...)
		g.agree(3, g.all...)
		time.Sleep(time.Second) // Until all have the last barrier.
		rest := without(g.all, l)
		for i, s := range rest {
			if got := s.Rank(l.host.Name()); got != i {
				t.Errorf("Rank of %s = %d, want %d", s.host.Name(), got, i)
			}
		}
		l.crash()
		if err := rest[0].Campaign(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if n := g.leader(rest...); n != rest[0] {
			t.Errorf("%s leads, want the one that campaigned", n.host.Name())
		}
		if d := time.Since(start); d > 50*time.Millisecond {
			t.Errorf("new leader after %v", d)
		}
		g.apply(rest[0], "after")
		g.agree(4, rest...)
	})
}

func TestCampaignIsForVotersAndRare(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		l := g.leader(g.all...)
		f, other := without(g.all, l)[0], without(g.all, l)[1]
		if err := l.Demote(other.id()); err != nil {
			t.Fatal(err)
		}
		g.until("demoted", func() bool { return other.Rank("") < 0 })
		if err := other.Campaign(); !errors.Is(err, consensus.ErrNotVoter) {
			t.Errorf("Campaign without a vote: %v, want ErrNoVote", err)
		}
		term := l.Term()
		if err := l.Campaign(); err != nil || l.Term() != term {
			t.Errorf("Campaign of the leader: %v, term %d, want none in term %d", err, l.Term(), term)
		}
		if err := f.Campaign(); err != nil {
			t.Fatal(err)
		}
		if n := g.leader(g.all...); n != f {
			t.Fatalf("%s leads", n.host.Name())
		}
		if err := f.Transfer(anyServer); err != nil {
			t.Fatal(err)
		}
		g.leader(g.all...)
		if err := f.Campaign(); !errors.Is(err, consensus.ErrTooSoon) {
			t.Errorf("second Campaign: %v, want ErrTooSoon", err)
		}
		time.Sleep(time.Second)
		if err := f.Campaign(); err != nil {
			t.Errorf("Campaign after two timeouts: %v", err)
		}
	})
}

// A candidate that lacks committed entries loses, and the log keeps them.
func TestCampaignOfALaggardLosesNothing(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		l := g.leader(g.all...)
		lag := without(g.all, l)[0]
		g.net.Isolate(lag.host.Name())
		g.apply(l, numbered(5)...)
		last := without(without(g.all, l), lag)[0]
		g.agree(5, l, last)
		l.crash()
		g.net.Heal()
		if err := lag.Campaign(); err != nil {
			t.Logf("campaign: %v", err)
		}
		// Messages in transit to the lagging server may still arrive; then it may lead.
		n := g.leader(lag, last)
		if err := n.Barrier(); err != nil {
			t.Fatal(err)
		}
		if got := len(n.fsm.have()); got != 5 {
			t.Errorf("%s leads with %d of 5 committed entries", n.host.Name(), got)
		}
		g.agree(5, lag, last)
	})
}

// Pre-vote: a follower that was cut off does not depose the leader on its return.
func TestReturnFromPartitionDoesNotDisruptLeader(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		l := g.leader(g.all...)
		f := without(g.all, l)[0]
		term := l.Term()
		g.net.Isolate(f.host.Name())
		time.Sleep(time.Minute)
		g.apply(l, "x")
		g.net.Heal()
		g.agree(1, g.all...)
		time.Sleep(10 * time.Second)
		if got, leads := l.Leadership(); !leads || got != term {
			t.Errorf("leads %v in term %d after the return, was %d", leads, got, term)
		}
	})
}

// A frozen leader (SIGSTOP) is replaced, and follows when it continues.
func TestFrozenLeaderIsReplaced(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		l := g.leader(g.all...)
		g.apply(l, "before")
		l.host.Freeze()
		rest := without(g.all, l)
		n := g.leader(rest...)
		g.apply(n, "meanwhile")
		time.Sleep(time.Minute)
		l.host.Thaw()
		g.leader(g.all...)
		g.agree(2, g.all...)
	})
}

// In the library, a voter rejects a candidate that is not a voter in its own log, even if the candidate's log is newer. Then no candidate
// could ever win again.
func TestVoterThatMissedAPromotionVotes(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		l := g.leader(g.all...)
		c, behind := without(g.all, l)[0], without(g.all, l)[1]
		if err := l.Demote(c.id()); err != nil {
			t.Fatal(err)
		}
		g.until("all know", func() bool { return len(behind.Voters()) == 2 && len(c.Voters()) == 2 })
		g.net.Isolate(behind.host.Name())
		behind.crash()
		if err := l.Promote(c.id()); err != nil {
			t.Fatal(err)
		}
		g.apply(l, "x")
		l.crash()
		g.net.Heal()
		behind.restart()
		if len(behind.Voters()) != 2 {
			t.Fatalf("%s knows the voters %v", behind.host.Name(), behind.Voters())
		}
		if n := g.leader(c, behind); n != c {
			t.Errorf("%s leads", n.host.Name())
		}
		g.agree(1, c, behind)
	})
}

// A voter also grants its vote to a server that was added and promoted in the meantime, and that is missing in its own log.
func TestVoterThatMissedAnAdditionVotes(t *testing.T) {
	bubble(t, []string{"a", "b", "c", "d", "e"}, nil, func(g *group) {
		t := g.t
		l := g.leader(g.all...)
		rest := without(g.all, l)
		other, behind, d, e := rest[0], rest[1], rest[2], rest[3]
		for _, s := range []*server{d, e} {
			if err := l.Remove(s.id()); err != nil {
				t.Fatal(err)
			}
		}
		g.until("all know", func() bool { return len(behind.Voters()) == 3 && len(other.Voters()) == 3 })
		behind.crash()
		for _, s := range []*server{d, e} {
			if err := l.AddNonvoter(s.id()); err != nil {
				t.Fatal(err)
			}
			if err := l.Promote(s.id()); err != nil {
				t.Fatal(err)
			}
		}
		g.apply(l, "x")
		g.agree(1, l, other, d, e)
		time.Sleep(time.Second)
		l.crash()
		other.crash()
		behind.restart()
		n := g.leader(d, e, behind)
		g.apply(n, "y")
		g.agree(2, d, e, behind)
	})
}

// A removed server that does not know of its removal must not disrupt the others.
func TestRemovedServerDoesNotDisruptLeader(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		l := g.leader(g.all...)
		gone := without(g.all, l)[0]
		gone.crash()
		if err := l.Remove(gone.id()); err != nil {
			t.Fatal(err)
		}
		term := l.Term()
		gone.restart()
		time.Sleep(time.Minute)
		if got, leads := l.Leadership(); !leads || got != term {
			t.Errorf("leads %v in term %d, was %d", leads, got, term)
		}
	})
}

// A voter does not campaign while it writes its vote for another candidate. Raft's main loop shows the new term only after the write. Once,
// the voter that was next in order saw the old term in the meantime, campaigned, and deposed the candidate that it had just elected.
func TestVoterDoesNotCampaignAgainstItsCandidate(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		l := g.leader(g.all...)
		g.apply(l, numbered(3)...)
		g.agree(3, g.all...)
		time.Sleep(time.Second) // Until all have the last barrier.
		first, next := without(g.all, l)[0], without(g.all, l)[1]
		term := l.Term()
		var writing atomic.Bool
		next.mem.SetStoreFault(func(op string) error {
			if op == "write term" {
				writing.Store(true)
				time.Sleep(200 * time.Millisecond)
			}
			return nil
		})
		g.net.Isolate(l.host.Name())
		if err := first.CampaignIfTerm(term); err != nil {
			t.Fatal(err)
		}
		g.until("the other one writes for whom it votes", writing.Load)
		if now := next.Term(); now != term {
			t.Fatalf("it is in term %d before that is written, want %d", now, term)
		}
		if err := next.CampaignIfTerm(term); !errors.Is(err, consensus.ErrTooLate) {
			t.Errorf("it stands against the leader of term %d: %v, want ErrTooLate", term, err)
		}
		g.until("the first one leads", first.IsLeader)
		time.Sleep(5 * time.Second)
		if now, leads := first.Leadership(); !leads || now != term+1 {
			t.Errorf("it leads %v in term %d, want term %d", leads, now, term+1)
		}
		if err := next.CampaignIfTerm(term); !errors.Is(err, consensus.ErrTooLate) {
			t.Errorf("a term later it stands: %v, want ErrTooLate", err)
		}
	})
}
