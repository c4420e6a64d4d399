package gossip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	"github.com/hashicorp/serf/serf"
)

const (
	// settling is how long after the start a node goes on joining though it
	// sees others: they may not see it yet, as long as they take its old
	// address for the one that counts.
	settling      = 30 * time.Second
	settlingPause = 3 * time.Second
	// steadyPause is how often a node that sees others looks for islands: join
	// addresses that are no members.
	steadyPause = 30 * time.Second
	logPause    = time.Minute
	// patience is how long a start may take before joining in vain is logged.
	patience = 3 * time.Second
)

// joiner is the state of the join loop.
type joiner struct {
	g       *Gossip
	started time.Time
	pause   time.Duration
	logNext time.Time
	met     bool // another node was seen since the start
	asked   bool // every address was asked once
}

// joining asks the join addresses until ctx ends: all the time while alone, and
// now and then later.
func (g *Gossip) joining(ctx context.Context) {
	if len(g.o.Join) == 0 {
		return
	}
	now := time.Now()
	j := &joiner{g: g, started: now, pause: g.o.RetryMin, logNext: now.Add(patience)}
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		j.round(ctx)
		t.Reset(j.next())
	}
}

// next returns the pause before the next round, with jitter.
func (j *joiner) next() time.Duration {
	d := steadyPause
	switch {
	case j.g.alone():
		d = j.pause
		j.pause = min(j.pause*3/2, j.g.o.RetryMax)
	case time.Since(j.started) < settling:
		d, j.pause = settlingPause, j.g.o.RetryMin
	default:
		j.pause = j.g.o.RetryMin
	}
	return d/2 + rand.N(d) //nolint:gosec // Jitter is no secret.
}

// round joins each address once, until another node is seen. The first round asks
// them all: one of them may belong to a cluster that was recovered from this
// node's, and must be met before this one serves with others that were left.
func (j *joiner) round(ctx context.Context) {
	g := j.g
	wasAlone := g.alone()
	settled := time.Since(j.started) >= settling
	targets, err := g.targets(ctx, !wasAlone && settled)
	for _, to := range targets {
		if ctx.Err() != nil {
			return
		}
		if e := g.join(to); e != nil {
			err = e
			continue
		}
		if wasAlone && !g.alone() && j.asked {
			break
		}
	}
	j.asked = true
	if !g.alone() {
		j.met = true
		g.joinErr.Store(nil)
		return
	}
	if err == nil {
		err = fmt.Errorf("gossip: no other node at %s", strings.Join(g.o.Join, ", "))
	}
	g.joinErr.Store(&err)
	j.report(err)
}

// report logs a round in vain once a minute, and keeps a refusal for Refused. A
// node that was among others since its start is where it belongs, whoever has
// the address now; and a newcomer that disagrees with a cluster is the one that
// is wrong.
func (j *joiner) report(err error) {
	var r *RefusedError
	if errors.As(err, &r) && !j.met && !r.theirs && !r.Superseded {
		j.g.report(r)
	}
	if now := time.Now(); !now.Before(j.logNext) {
		j.logNext = now.Add(logPause)
		j.g.log.Warn().Err(err).Strs("join", j.g.o.Join).Msg("no other node reached: still trying")
	}
}

// targets returns where to join, in random order so that a dead address does
// not always come first. Members that are alive are left out if asked.
func (g *Gossip) targets(ctx context.Context, skipMembers bool) ([]netip.AddrPort, error) {
	skip := map[netip.AddrPort]bool{g.self: true}
	if skipMembers {
		for _, m := range g.serf.Members() {
			if m.Status == serf.StatusAlive {
				skip[newMember(m).Addr] = true
			}
		}
	}
	var out []netip.AddrPort
	var err error
	for _, name := range g.o.Join {
		all, e := resolve(ctx, g.o.Resolver, name)
		if e != nil {
			err = e
		}
		for _, a := range all {
			if !skip[a] {
				skip[a] = true
				out = append(out, a)
			}
		}
	}
	//nolint:gosec // The order is no secret.
	rand.Shuffle(len(out), func(i, k int) { out[i], out[k] = out[k], out[i] })
	return out, err
}

// join exchanges the whole state with one address. memberlist flattens errors to
// text, so a refusal of our own is recognised by its text.
func (g *Gossip) join(to netip.AddrPort) error {
	g.gate.last.Store(nil)
	_, err := g.serf.Join([]string{to.String()}, true)
	if err == nil {
		return nil
	}
	if r := g.gate.last.Load(); r != nil && strings.Contains(err.Error(), r.Error()) {
		return r
	}
	if why := sealedReason(err.Error()); why != "" {
		return fmt.Errorf("gossip: join %s: %s (%w)", to, why, err)
	}
	return fmt.Errorf("gossip: join %s: %w", to, err)
}

// sealedReason says what to do where two nodes do not encrypt alike; memberlist
// has only texts for that.
func sealedReason(text string) string {
	switch {
	case strings.Contains(text, "encryption is not configured"):
		return "it encrypts its gossip and this node does not: start this one with the cluster's secret (--secret-file)"
	case strings.Contains(text, "remote state is not encrypted"):
		return "it does not encrypt its gossip and this node does: it was started without the cluster's secret (--secret-file)"
	case strings.Contains(text, "no installed keys could decrypt"):
		return "it has another secret (--secret-file)"
	}
	return ""
}
