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
	gossip       *Gossip
	started      time.Time
	retryPause   time.Duration
	nextLog      time.Time
	sawOtherNode bool // another node was seen since the start
	triedAll     bool // every join address was tried once
}

// joinUntilLeft runs joinLoop until ctx ends or Leave is called. Serf cannot join after Leave.
func (g *Gossip) joinUntilLeft(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-g.leaveStarted:
			stop()
		case <-ctx.Done():
		}
	}()
	g.joinLoop(ctx)
}

// joinLoop joins the join addresses in rounds until ctx ends. Rounds follow with growing pauses while
// this node is alone, every settleInterval while fewer nodes than BootstrapExpect are alive, and every
// steadyInterval later. Each round resolves the names again, because their addresses change, and many
// names have no address before their node runs.
func (g *Gossip) joinLoop(ctx context.Context) {
	if len(g.options.JoinAddrs) == 0 {
		return
	}
	now := time.Now()
	j := &joiner{gossip: g, started: now, retryPause: g.options.RetryMin, nextLog: now.Add(firstLogDelay)}
	// A cluster may add this node even if some join addresses do not respond in time.
	allowAddingTimer := time.AfterFunc(choiceTimeout, g.allowAdding)
	defer allowAddingTimer.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		j.joinRound(ctx)
		timer.Reset(j.nextPause())
	}
}

// nextPause returns the pause before the next round, with jitter.
func (j *joiner) nextPause() time.Duration {
	pause := j.basePause()
	return pause/2 + rand.N(pause) //nolint:gosec // not security-relevant
}

// basePause returns the pause before the next round, without jitter. While this node is alone, the pauses grow up
// to RetryMax.
func (j *joiner) basePause() time.Duration {
	options := &j.gossip.options
	if j.gossip.isAlone() {
		pause := j.retryPause
		j.retryPause = min(j.retryPause*3/2, options.RetryMax)
		return pause
	}
	j.retryPause = options.RetryMin
	isSettling := time.Since(j.started) < settlePeriod
	expectsMore := j.gossip.countNodes() < options.BootstrapExpect
	if isSettling || expectsMore {
		return settleInterval
	}
	return steadyInterval
}

// joinRound tries to join through each address once, up to maxAddrsPerName addresses per name, until another
// node is seen. The first round tries all addresses: one of them may belong to a cluster that was restored
// from this node's old cluster. The node must detect this before it serves requests alongside other nodes of
// the old one.
func (j *joiner) joinRound(ctx context.Context) {
	g := j.gossip
	g.forgetDeadCluster()
	attempts, err := j.joinAll(ctx, g.isAlone())
	if ctx.Err() != nil {
		return
	}
	j.triedAll = true
	g.allowAdding()
	if !g.isAlone() {
		j.sawOtherNode = true
		g.joinErr.Store(nil)
		g.lastAttempts.Store(nil)
		return
	}
	g.joinErr.Store(&err)
	g.lastAttempts.Store(&attempts)
	j.reportFailure(err)
}

// joinAll joins each address. It returns the results of the addresses that led to no other node,
// and the error of one of them. The caller must ignore both once another node is seen.
func (j *joiner) joinAll(ctx context.Context, wasAlone bool) (attempts []JoinAttempt, err error) {
	g, hasContacted := j.gossip, false
	hasSettled := time.Since(j.started) >= settlePeriod
	skip := g.addrsToSkip(!wasAlone && hasSettled)
	addFailure := func(addr string, reason error) { err, attempts = reason, append(attempts, JoinAttempt{addr, reason}) }
	names := shuffled(g.options.JoinAddrs)
	for result := range g.resolveJoinAddrs(ctx, names) {
		if result.err != nil {
			addFailure(names[result.index], result.err)
		}
		for _, addr := range shuffled(result.addrs) {
			if skip[addr] {
				continue
			}
			skip[addr], hasContacted = true, true // each address once, although several names may have it
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			joinErr := g.join(ctx, addr)
			g.recordJoinResult(addr, joinErr)
			if joinErr != nil {
				addFailure(addr.String(), joinErr)
				continue
			}
			if foundNode := wasAlone && !g.isAlone(); foundNode && j.triedAll {
				return nil, nil
			}
		}
	}
	if err == nil {
		err = noOtherNodeError(g.options.JoinAddrs, hasContacted)
		for _, name := range g.options.JoinAddrs {
			attempts = append(attempts, g.selfAttempt(ctx, name))
		}
	}
	slices.SortFunc(attempts, func(a, b JoinAttempt) int { return cmp.Compare(a.Addr, b.Addr) })
	return attempts, err
}

// noOtherNodeError returns the error for join addresses that did not fail, but led to no other node. hasContacted
// is set if one of the addresses does not belong to this node.
func noOtherNodeError(join []string, hasContacted bool) error {
	if hasContacted {
		return fmt.Errorf("gossip: no other node at %s", strings.Join(join, ", "))
	}
	return fmt.Errorf("gossip: no other node at %s: there is only this one", strings.Join(join, ", "))
}

// reportFailure logs a failed round at most once a minute, and sends a refusal to Refusals. It does
// not send the refusal if this node has seen another node since its start, because it then belongs
// to a cluster, and the address may have a new owner. It does not send the refusal either if the
// operator must change the other node.
func (j *joiner) reportFailure(err error) {
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		belongsToCluster := j.sawOtherNode
		if !belongsToCluster && !refused.remoteMustChange && !refused.Superseded {
			j.gossip.reportRefusal(refused)
		}
	}
	if now := time.Now(); !now.Before(j.nextLog) {
		j.nextLog = now.Add(logInterval)
		j.gossip.log.Warn().Err(err).Strs("join", j.gossip.options.JoinAddrs).Msg("no node reachable, retrying")
	}
}

// addrsToSkip returns the addresses that are not joined: the address of this node and, if
// includeMembers is set, the addresses of alive members.
func (g *Gossip) addrsToSkip(includeMembers bool) map[netip.AddrPort]bool {
	skip := map[netip.AddrPort]bool{g.selfAddr: true}
	if includeMembers {
		for _, member := range g.serf.Members() {
			if member.Status == serf.StatusAlive {
				skip[addrOf(member)] = true
			}
		}
	}
	return skip
}

// shuffled returns a copy in random order, so that an unreachable address is not always the first.
func shuffled[T any](elements []T) []T {
	elements = slices.Clone(elements)
	rand.Shuffle(len(elements), func(i, k int) { elements[i], elements[k] = elements[k], elements[i] }) //nolint:gosec // not security-relevant
	return elements
}

// join exchanges the whole state with one address. memberlist converts errors to text, so this
// function recognises a refusal of this node by its text.
func (g *Gossip) join(ctx context.Context, addr netip.AddrPort) error {
	if reason := loopbackConflict(g.selfAddr, addr); reason != "" {
		return fmt.Errorf("gossip: join %s: %w", addr, &wrongPortError{reason})
	}
	g.mergeDelegate.lastRefusal.Store(nil)
	_, err := g.serf.Join([]string{addr.String()}, true)
	if err == nil {
		return nil
	}
	if refused := g.mergeDelegate.lastRefusal.Load(); refused != nil && strings.Contains(err.Error(), refused.Error()) {
		return refused
	}
	if reason := g.identifyPort(ctx, addr, err.Error()); reason != "" {
		return fmt.Errorf("gossip: join %s: %w", addr, &wrongPortError{reason})
	}
	if reason, _ := encryptionMismatch(err.Error()); reason != "" {
		return fmt.Errorf("gossip: join %s: %s (%w)", addr, reason, err)
	}
	return fmt.Errorf("gossip: join %s: %w", addr, err)
}

// loopbackConflict returns why a node that gossips on a loopback address cannot join an address on
// another machine, or "". The configuration check rejects IP addresses of this kind; the address
// of a name is only known now.
func loopbackConflict(self, addr netip.AddrPort) string {
	if !self.Addr().IsLoopback() || addr.Addr().IsLoopback() {
		return ""
	}
	return fmt.Sprintf("this node's gossip is at %s, which other machines cannot reach: start it with the cluster's secret (--secret-file), or set an address of this machine with --gossip", self)
}

// encryptionMismatch returns the remedy if two nodes use different encryption, and whether this
// node needs the secret of the other one. memberlist reports this only as text.
func encryptionMismatch(text string) (remedy string, needsSecret bool) {
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
