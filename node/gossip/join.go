package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/serf/serf"
)

const (
	// settling is how long after the start a node goes on joining though it
	// sees others: they may not see it yet, as long as they take its old
	// address for the one that counts.
	settlePeriod   = 30 * time.Second
	settleInterval = 3 * time.Second
	// steadyPause is how often a node that sees others looks for islands: join
	// addresses that are no members.
	steadyInterval = 30 * time.Second
	logInterval    = time.Minute
	// patience is how long a start may take before joining in vain is logged.
	firstLogDelay = 3 * time.Second
)

// joiner is the state of the join loop.
type joiner struct {
	g        *Gossip
	started  time.Time
	pause    time.Duration
	nextLog  time.Time
	sawNode  bool // another node was seen since the start
	askedAll bool // every address was asked once
}

// joiningUntilLeft is joining until ctx ends or Leave is called: Serf joins nothing after that.
func (g *Gossip) joinUntilLeft(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-g.left:
			stop()
		case <-ctx.Done():
		}
	}()
	g.joinLoop(ctx)
}

// joining asks the join addresses until ctx ends: all the time while alone, every
// few seconds while fewer nodes are seen than the cluster begins with, and now and
// then later. Names are looked up anew each time: what they stand for changes, and
// many stand for nothing before the node behind them runs.
func (g *Gossip) joinLoop(ctx context.Context) {
	if len(g.o.Join) == 0 {
		return
	}
	now := time.Now()
	j := &joiner{g: g, started: now, pause: g.o.RetryMin, nextLog: now.Add(firstLogDelay)}
	patient := time.AfterFunc(choiceTimeout, g.decide)
	defer patient.Stop()
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		j.round(ctx)
		t.Reset(j.nextPause())
	}
}

// next returns the pause before the next round, with jitter.
func (j *joiner) nextPause() time.Duration {
	d := steadyInterval
	switch {
	case j.g.isAlone():
		d = j.pause
		j.pause = min(j.pause*3/2, j.g.o.RetryMax)
	case time.Since(j.started) < settlePeriod || j.g.countNodes() < j.g.o.BootstrapExpect:
		d, j.pause = settleInterval, j.g.o.RetryMin
	default:
		j.pause = j.g.o.RetryMin
	}
	return d/2 + rand.N(d) //nolint:gosec // Jitter is no secret.
}

// round joins each address once, of a name at most mostOfName, until another node is seen. The first round asks
// them all: one of them may belong to a cluster that was recovered from this
// node's, and must be met before this one serves with others that were left.
func (j *joiner) round(ctx context.Context) {
	g := j.g
	g.forgetDeadChoice()
	tried, err := j.joinAll(ctx, g.isAlone())
	if ctx.Err() != nil {
		return
	}
	j.askedAll = true
	g.decide()
	if !g.isAlone() {
		j.sawNode = true
		g.joinErr.Store(nil)
		g.attempts.Store(nil)
		return
	}
	g.joinErr.Store(&err)
	g.attempts.Store(&tried)
	j.reportFailure(err)
}

// joinAll joins each address, and returns what became of those that led to no other
// node, and why one of them did not: both say nothing once one is seen.
func (j *joiner) joinAll(ctx context.Context, wasAlone bool) (tried []Attempt, err error) {
	g, asked := j.g, false
	skip := g.skippedAddrs(!wasAlone && time.Since(j.started) >= settlePeriod)
	fail := func(addr string, why error) { err, tried = why, append(tried, Attempt{addr, why}) }
	names := shuffled(g.o.Join)
	for f := range lookUp(ctx, g.o.Resolver, names) {
		if f.err != nil {
			fail(names[f.index], f.err)
		}
		for _, to := range shuffled(f.addrs) {
			if skip[to] {
				continue
			}
			skip[to], asked = true, true
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			e := g.join(ctx, to)
			g.recordJoinResult(to, e)
			if e != nil {
				fail(to.String(), e)
			} else if wasAlone && !g.isAlone() && j.askedAll {
				return nil, nil
			}
		}
	}
	if err == nil {
		err = noOtherNode(g.o.Join, asked)
		for _, name := range g.o.Join {
			tried = append(tried, g.selfAttempt(ctx, name))
		}
	}
	slices.SortFunc(tried, func(a, b Attempt) int { return cmp.Compare(a.Addr, b.Addr) })
	return tried, err
}

// nobodyAt says that nothing failed at these addresses, and no other node is there.
func noOtherNode(join []string, asked bool) error {
	if asked {
		return fmt.Errorf("gossip: no other node at %s", strings.Join(join, ", "))
	}
	return fmt.Errorf("gossip: no other node at %s: there is only this one", strings.Join(join, ", "))
}

// report logs a round in vain once a minute, and keeps a refusal for Refused. A
// node that was among others since its start is where it belongs, whoever has
// the address now; and a newcomer that disagrees with a cluster is the one that
// is wrong.
func (j *joiner) reportFailure(err error) {
	var r *RefusedError
	if errors.As(err, &r) && !j.sawNode && !r.theirFault && !r.Superseded {
		j.g.report(r)
	}
	if now := time.Now(); !now.Before(j.nextLog) {
		j.nextLog = now.Add(logInterval)
		j.g.log.Warn().Err(err).Strs("join", j.g.o.Join).Msg("no node reachable, retrying")
	}
}

// passed returns the addresses that are not asked: this node's own and, if wanted,
// those of members that are alive.
func (g *Gossip) skippedAddrs(members bool) map[netip.AddrPort]bool {
	skip := map[netip.AddrPort]bool{g.self: true}
	if members {
		for _, m := range g.serf.Members() {
			if m.Status == serf.StatusAlive {
				skip[addrOf(m)] = true
			}
		}
	}
	return skip
}

// shuffled returns all in random order, so that a dead address does not always come
// first.
func shuffled[T any](all []T) []T {
	all = slices.Clone(all)
	rand.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] }) //nolint:gosec // The order is no secret.
	return all
}

// join exchanges the whole state with one address. memberlist flattens errors to
// text, so a refusal of our own is recognised by its text.
func (g *Gossip) join(ctx context.Context, to netip.AddrPort) error {
	if why := loopbackConflict(g.self, to); why != "" {
		return fmt.Errorf("gossip: join %s: %w", to, &wrongPortError{why})
	}
	g.merge.lastRefusal.Store(nil)
	_, err := g.serf.Join([]string{to.String()}, true)
	if err == nil {
		return nil
	}
	if r := g.merge.lastRefusal.Load(); r != nil && strings.Contains(err.Error(), r.Error()) {
		return r
	}
	if why := g.identifyPort(ctx, to, err.Error()); why != "" {
		return fmt.Errorf("gossip: join %s: %w", to, &wrongPortError{why})
	}
	if why, _ := encryptionMismatch(err.Error()); why != "" {
		return fmt.Errorf("gossip: join %s: %s (%w)", to, why, err)
	}
	return fmt.Errorf("gossip: join %s: %w", to, err)
}

// confined says why a node whose gossip is at self cannot belong to a cluster at an
// address; empty: it may. A configuration that says so in addresses is refused; what a
// name stands for is known only now.
func loopbackConflict(self, to netip.AddrPort) string {
	if !self.Addr().IsLoopback() || to.Addr().IsLoopback() {
		return ""
	}
	return fmt.Sprintf("this node's gossip is at %s, where no other machine reaches it: start it with the cluster's secret (--secret-file), or name an address of this machine with --gossip", self)
}

// sealedReason says what to do where two nodes do not encrypt alike, and whether this one needs
// the other's secret; memberlist has only texts for that.
func encryptionMismatch(text string) (why string, needs bool) {
	switch {
	case strings.Contains(text, "encryption is not configured"):
		return "it encrypts its gossip and this node does not: start this one with the cluster's secret (--secret-file)", true
	case strings.Contains(text, "remote state is not encrypted"):
		return "it does not encrypt its gossip and this node does: it was started without the cluster's secret (--secret-file)", false
	case strings.Contains(text, "no installed keys could decrypt"):
		return "it has another secret (--secret-file)", true
	}
	return "", false
}
