//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"slices"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
)

// The faults in this file are requests of operators. No node fails, so no client request may fail.
// All maps must obey the requests. Receivers of faults are named f.

// drain makes a node own no shards. An operator requests the drain, and withdraws it at the end. If
// isLocal is set, the node itself requests the drain (drain --local) before it gets SIGTERM.
type drain struct {
	isLocal bool
	victim  *cluster.Node
}

func (f *drain) name() string {
	if f.isLocal {
		return "drain --local"
	}
	return "drain"
}

// exclusive excludes other faults, because they could make the cluster refuse the drain, or
// the drain would wait for the faulty nodes.
func (*drain) exclusive() {}

func (f *drain) begin(sc *scenario) {
	f.victim = sc.pickNode(anyNode)
	if f.isLocal {
		sc.drains = append(sc.drains, history.Drain{Node: f.victim.ID, From: history.Now()})
		sc.fatalIf(sc.runCommand("drain", "--local", "--data", f.victim.DataDir))
		return
	}
	sc.drainNode(f.victim)
}

// whileActive waits until the node owns no shards. The node continues to receive requests, and forwards
// all of them. After a local drain, the node then stops.
func (f *drain) whileActive(sc *scenario) {
	sc.awaitEmpty(f.victim)
	sc.awaitLoad()
	if f.isLocal {
		sc.tracef("SIGTERM %s", f.victim.ID)
		f.victim.Stop(sc)
		sc.awaitLoad()
	}
}

func (f *drain) end(sc *scenario) {
	if f.isLocal {
		sc.startNode(f.victim)
		sc.drains[len(sc.drains)-1].Until = history.Now()
		return
	}
	sc.withdrawRequests(f.victim)
}

// cordon prevents a node from gaining shards. Meanwhile another node restarts, so that its shards move
// away and back.
type cordon struct{ victim, restarted *cluster.Node }

func (*cordon) name() string { return "cordon" }

func (*cordon) exclusive() {}

func (f *cordon) begin(sc *scenario) {
	f.victim, f.restarted = sc.pickNode(anyNode), sc.pickNode(anyNode)
	sc.tracef("%s is cordoned", f.victim.ID)
	since := sc.submitRequest("cordon", f.victim, func(policy cluster.Policy) bool { return slices.Contains(policy.Cordoned, f.victim.ID) })
	sc.cordons = append(sc.cordons, history.Cordon{Node: f.victim.ID, LogRange: history.LogRange{After: since}})
}

func (f *cordon) whileActive(sc *scenario) {
	sc.tracef("SIGTERM %s", f.restarted.ID)
	f.restarted.Stop(sc)
	sc.awaitEmpty(f.restarted)
	sc.awaitLoad()
	sc.startNode(f.restarted)
	cluster.Await(sc, f.restarted.ID+" has shards again", func() error {
		shardMap, err := f.victim.Map(sc.Context())
		if err == nil && shardMap.Counts()[f.restarted.ID] == 0 {
			err = errors.New("it owns no shards")
		}
		return err
	})
	sc.awaitLoad()
}

func (f *cordon) end(sc *scenario) { sc.withdrawRequests(f.victim) }

// drainNode requests a drain of a node. In half of the cases, idle shards move first (idle_first).
func (sc *scenario) drainNode(node *cluster.Node) {
	var options []string
	if sc.rng.IntN(2) == 0 {
		options = []string{"idle_first", "2s"}
	}
	sc.tracef("%s is drained %v", node.ID, options)
	sc.requestDrain(node, options...)
}

// requestDrain requests a drain of a node, and records it from now on. options are names and values of
// parameters.
func (sc *scenario) requestDrain(node *cluster.Node, options ...string) {
	sc.drains = append(sc.drains, history.Drain{Node: node.ID, From: history.Now()})
	recorded := &sc.drains[len(sc.drains)-1]
	isDrained := func(policy cluster.Policy) bool { return slices.Contains(policy.Drained, node.ID) }
	recorded.LogRange.After = sc.submitRequest("drain", node, isDrained, options...)
}

// withdrawRequests withdraws all drains and cordons of a node. Maps that are proposed from now on need
// not obey them.
func (sc *scenario) withdrawRequests(node *cluster.Node) {
	sc.tracef("%s is uncordoned", node.ID)
	var withdrawnAt uint64
	cluster.Await(sc, node.ID+" reports its log position", func() error {
		status, err := node.Status(sc.Context())
		withdrawnAt = max(status.Epoch, status.Proposed) + 1
		return err
	})
	sc.submitRequest("uncordon", node, func(policy cluster.Policy) bool {
		return !slices.Contains(append(policy.Drained, policy.Cordoned...), node.ID)
	})
	for i := range sc.drains {
		drained := &sc.drains[i]
		if drained.Node == node.ID && drained.Until == 0 {
			drained.Until, drained.LogRange.Before = history.Now(), withdrawnAt
		}
	}
	for i := range sc.cordons {
		cordoned := &sc.cordons[i]
		if cordoned.Node == node.ID && cordoned.LogRange.Before == 0 {
			cordoned.LogRange.Before = withdrawnAt
		}
	}
}

// submitRequest sends a request of an operator to a node, and waits until the policy of that node shows
// that it is applied. It repeats the request until the node accepts it, because the leader may have
// changed. options are names and values of parameters. The result is the index of the log entry of the
// request.
func (sc *scenario) submitRequest(verb string, node *cluster.Node, isApplied func(cluster.Policy) bool, options ...string) (entry uint64) {
	params := url.Values{"node": {node.ID}}
	for i := 0; i+1 < len(options); i += 2 {
		params.Set(options[i], options[i+1])
	}
	isAccepted := false
	cluster.Await(sc, verb+" "+node.ID, func() error {
		policy, err := node.Policy(sc.Context())
		if err != nil {
			return err
		}
		entry = policy.Since
		if isApplied(policy) {
			return nil
		}
		if !isAccepted {
			if err := node.TryAction(sc.Context(), verb, params); err != nil {
				return err
			}
			isAccepted = true
		}
		return errors.New("its log does not contain the request yet")
	})
	return entry
}

// awaitEmpty waits until a node owns no shards, according to the map of one of the other nodes.
func (sc *scenario) awaitEmpty(node *cluster.Node) {
	cluster.Await(sc, node.ID+" owns no shards", func() error {
		var errs []error
		for _, other := range sc.membersExcept(node) {
			shardMap, err := other.Map(sc.Context())
			remaining := shardMap.Counts()[node.ID]
			switch {
			case err != nil:
				errs = append(errs, err)
			case remaining > 0:
				errs = append(errs, fmt.Errorf("%d shards", remaining))
			default:
				return nil
			}
		}
		return errors.Join(errs...)
	})
}

// runCommand runs a command of the shardway program, such as drain, and waits for its end.
func (sc *scenario) runCommand(args ...string) error {
	ctx, cancel := context.WithTimeout(sc.Context(), cluster.AwaitTimeout)
	defer cancel()
	if out, err := exec.CommandContext(ctx, sc.opts.Binaries.Node, args...).CombinedOutput(); err != nil { //nolint:gosec // the test's own
		return fmt.Errorf("%v: %w: %s", args, err, out)
	}
	return nil
}
