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
	// settlePeriod is how long after its start a node continues to join although it sees other
	// nodes. They may not see this node yet while they use its previous address.
	settlePeriod   = 30 * time.Second
	settleInterval = 3 * time.Second
	// steadyInterval is the interval at which a node that sees other nodes joins addresses that
	// are not members. This connects separated groups of nodes.
	steadyInterval = 30 * time.Second
	logInterval    = time.Minute
	// firstLogDelay is how long joining may fail after the start before this is logged.
	firstLogDelay = 3 * time.Second
)

// joiner is the state of joinLoop.
type joiner struct {
	g        *Gossip
	started  time.Time
	pause    time.Duration
	nextLog  time.Time
	sawNode  bool // another node was seen since the start
	askedAll bool // every address was asked once
}

// joinUntilLeft runs joinLoop until ctx ends or Leave is called. Serf cannot join after Leave.
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

// joinLoop joins the join addresses until ctx ends: continuously while this node is alone, every
// few seconds while fewer nodes than BootstrapExpect are alive, and every steadyInterval later. It
// resolves names each time, because their addresses change, and many names have no address before
// their node runs.
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

// nextPause returns the pause before the next round, with jitter.
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
	return d/2 + rand.N(d) //nolint:gosec // not security-relevant
}

// round joins each address once, up to maxPerName addresses per name, until another node is seen.
// The first round joins all addresses: one of them may belong to a cluster that was recovered from
// the cluster of this node, and this node must detect that before it serves requests together with
// other remaining nodes.
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

// joinAll joins each address. It returns the addresses that led to no other node, and the error of
// one of them. Both are meaningless once another node is seen.
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

// noOtherNode returns the error for join addresses that did not fail, but led to no other node.
func noOtherNode(join []string, asked bool) error {
	if asked {
		return fmt.Errorf("gossip: no other node at %s", strings.Join(join, ", "))
	}
	return fmt.Errorf("gossip: no other node at %s: there is only this one", strings.Join(join, ", "))
}

// reportFailure logs a failed round at most once a minute, and stores a refusal for Refused. It
// does not store the refusal if this node has seen another node since its start, because it then
// belongs to a cluster, and the address may have a new owner. It does not store it either if the
// other node is at fault.
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

// skippedAddrs returns the addresses that are not joined: the address of this node and, if members
// is set, those of alive members.
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

// shuffled returns a copy in random order, so that an unreachable address is not always the first.
func shuffled[T any](all []T) []T {
	all = slices.Clone(all)
	rand.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] }) //nolint:gosec // not security-relevant
	return all
}

// join exchanges the whole state with one address. memberlist converts errors to text, so this
// function recognises a refusal of this node by its text.
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

// loopbackConflict returns why a node that gossips on a loopback address cannot join an address on
// another machine, or "". The configuration check rejects IP addresses of this kind; the address
// of a name is only known now.
func loopbackConflict(self, to netip.AddrPort) string {
	if !self.Addr().IsLoopback() || to.Addr().IsLoopback() {
		return ""
	}
	return fmt.Sprintf("this node's gossip is at %s, which other machines cannot reach: start it with the cluster's secret (--secret-file), or set an address of this machine with --gossip", self)
}

// encryptionMismatch returns the remedy if two nodes use different encryption, and whether this
// node needs the secret of the other one. memberlist reports this only as text.
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
