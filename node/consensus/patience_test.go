package consensus_test

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"shardway/node/consensus"
)

// alone partitions a server from the others, and returns it once it knows no leader.
func (g *group) alone() *server {
	g.t.Helper()
	s := without(g.all, g.leader(g.all...))[0]
	g.net.Isolate(s.host.Name())
	g.until("it knows of no leader", func() bool { return s.Leader() == "" })
	return s
}

// A candidate waits for three writes of its own disk, and from the third campaign on twice as long each time. Both have a limit.
func TestPatienceIsBounded(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		s := g.alone()
		for _, c := range []struct {
			took  time.Duration
			stood int64
			want  time.Duration
		}{
			{0, 0, 500 * time.Millisecond},
			{160 * time.Millisecond, 0, 500 * time.Millisecond},
			{time.Second, 0, 3 * time.Second},
			{4 * time.Second, 0, 8 * time.Second},
			{0, 1, 500 * time.Millisecond},
			{0, 2, time.Second},
			{0, 3, 2 * time.Second},
			{0, 4, 4 * time.Second},
			{0, 5, 4 * time.Second},
			{0, 1000, 4 * time.Second}, // permanently
			{time.Second, 2, 3 * time.Second},
			{time.Second, 4, 4 * time.Second},
			{2 * time.Second, 1000, 6 * time.Second},
		} {
			if got := s.Patience(c.took, c.stood); got != c.want {
				g.t.Errorf("after a write of %v, and standing %d times, it waits %v for votes, want %v", c.took, c.stood, got, c.want)
			}
		}
	})
}

// Each write of a term or of a vote measures the disk, whichever server campaigns. Campaigns of other servers do not count for this
// server's backoff.
func TestVoteWritesMeasureDiskLatency(t *testing.T) {
	for name, c := range map[string]struct {
		slow string // of the writes
		last uint64 // the end of the candidate's log
		want time.Duration
	}{
		"quick, refused":         {"", 0, 500 * time.Millisecond},
		"quick, granted":         {"", 1 << 20, 500 * time.Millisecond},
		"a slow term, refused":   {"write term", 0, 3 * time.Second},
		"a slow vote, granted":   {"write vote", 1 << 20, 3 * time.Second},
		"a slow vote, but never": {"write vote", 0, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, abc(), nil, func(g *group) {
				s := g.alone()
				s.mem.SetStoreFault(func(op string) error {
					if op == c.slow {
						time.Sleep(time.Second)
					}
					return nil
				})
				for range 4 {
					next := s.Term() + 1
					resp, err := s.Ask(without(g.all, s)[0].id(), func(h raft.RPCHeader) any {
						return &raft.RequestVoteRequest{RPCHeader: h, Term: next, LastLogIndex: c.last, LastLogTerm: c.last}
					})
					if r, ok := resp.(*raft.RequestVoteResponse); err != nil || !ok || r.Granted != (c.last > 0) || s.Term() != next {
						g.t.Fatalf("answered %+v, %v in term %d, want %d", resp, err, s.Term(), next)
					}
					if _, election := s.Timeouts(); election != c.want {
						g.t.Fatalf("in term %d it waits %v for votes, want %v", next, election, c.want)
					}
				}
				s.mem.SetStoreFault(nil)
			})
		})
	}
}

// A vote request times out after the longest time that a candidate may wait, or after the timeout of any other message if that is longer.
// An unreachable voter is given up as soon as for any other message.
func TestCandidateWaitsForVotesButNotForDeadVoters(t *testing.T) {
	for _, c := range []struct{ timeout, write time.Duration }{
		{2 * time.Second, 7500 * time.Millisecond}, // of each of two writes
		{24 * time.Second, 11 * time.Second},
	} {
		bubble(t, abc(), func(o *consensus.Options) { o.MessageTimeout = c.timeout }, func(g *group) {
			l := g.leader(g.all...)
			voter, other := without(g.all, l)[0], without(g.all, l)[1]
			// A write of a new term that is still in progress counts as one more write.
			g.until("the voter has written what the leader has", func() bool { return voter.LastIndex() >= l.LastIndex() })
			time.Sleep(time.Second) // its last messages have been answered
			slow(c.write, voter)
			began := time.Now()
			if granted, err := l.AskVote(voter.id(), l.Term()+10); !granted || err != nil {
				g.t.Errorf("asked for %v: granted %v, %v, want it after two writes of %v", time.Since(began), granted, err, c.write)
			}
			voter.mem.SetStoreFault(nil)
			g.net.Isolate(other.host.Name())
			time.Sleep(time.Minute) // its connections have ended
			began = time.Now()
			granted, err := l.AskVote(other.id(), l.Term()+10)
			if took := time.Since(began); granted || err == nil || took > c.timeout {
				g.t.Errorf("asked who is away for %v: granted %v, %v, want an error within %v", took, granted, err, c.timeout)
			}
		})
	}
}
