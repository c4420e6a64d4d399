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

// The faults of this file are requests of operators. Nodes do not fail, so no client request
// may fail, and maps must obey the requests.

// drain makes a node own no shards. An operator requests the drain and withdraws it in the
// end. With self, the node itself requests the drain (drain --local) before SIGTERM.
type drain struct {
	self   bool
	victim *cluster.Node
}

func (f *drain) name() string {
	if f.self {
		return "drain --local"
	}
	return "drain"
}

// exclusive excludes other faults, because they could make the cluster refuse the drain, or
// the drain would wait for the faulty nodes.
func (*drain) exclusive() {}

func (f *drain) begin(sc *scenario) {
	f.victim = sc.pick(anyNode)
	if f.self {
		sc.drains = append(sc.drains, history.Drain{Node: f.victim.ID, From: history.Now()})
		sc.fatalIf(sc.command("drain", "--local", "--data", f.victim.Data))
		return
	}
	sc.drain(f.victim)
}

// during waits until the node owns no shards. The node continues to receive requests and
// forwards all of them. With self, the node then stops.
func (f *drain) during(sc *scenario) {
	sc.awaitEmpty(f.victim)
	sc.awaitLoad()
	if f.self {
		sc.tracef("SIGTERM %s", f.victim.ID)
		f.victim.Stop(sc)
		sc.awaitLoad()
	}
}

func (f *drain) end(sc *scenario) {
	if f.self {
		sc.start(f.victim)
		sc.drains[len(sc.drains)-1].Until = history.Now()
		return
	}
	sc.uncordon(f.victim)
}

// cordon forbids one node to gain shards. Meanwhile another node stops and starts again, so
// that its shards move twice.
type cordon struct{ victim, other *cluster.Node }

func (*cordon) name() string { return "cordon" }

func (*cordon) exclusive() {}

func (f *cordon) begin(sc *scenario) {
	f.victim, f.other = sc.pick(anyNode), sc.pick(anyNode)
	sc.tracef("%s is cordoned", f.victim.ID)
	since := sc.request("cordon", f.victim, func(policy cluster.Policy) bool { return slices.Contains(policy.Cordoned, f.victim.ID) })
	sc.cordons = append(sc.cordons, history.Cordon{Node: f.victim.ID, Entries: history.Entries{After: since}})
}

func (f *cordon) during(sc *scenario) {
	sc.tracef("SIGTERM %s", f.other.ID)
	f.other.Stop(sc)
	sc.awaitEmpty(f.other)
	sc.awaitLoad()
	sc.start(f.other)
	cluster.Await(sc, f.other.ID+" has shards again", func() error {
		shardMap, err := f.victim.Map(sc.Context())
		if err == nil && shardMap.Counts()[f.other.ID] == 0 {
			err = errors.New("it owns no shards")
		}
		return err
	})
	sc.awaitLoad()
}

func (f *cordon) end(sc *scenario) { sc.uncordon(f.victim) }

// drain asks for a drain of a node, in half of the cases with idle_first.
func (sc *scenario) drain(node *cluster.Node) {
	var options []string
	if sc.rng.IntN(2) == 0 {
		options = []string{"idle_first", "2s"}
	}
	sc.tracef("%s is drained %v", node.ID, options)
	sc.drains = append(sc.drains, history.Drain{Node: node.ID, From: history.Now()})
	sc.drains[len(sc.drains)-1].Entries.After = sc.request("drain", node, func(policy cluster.Policy) bool { return slices.Contains(policy.Drained, node.ID) }, options...)
}

// uncordon withdraws all requests for a node. Maps that are proposed from now on may
// disregard them.
func (sc *scenario) uncordon(node *cluster.Node) {
	sc.tracef("%s is uncordoned", node.ID)
	var till uint64
	cluster.Await(sc, node.ID+" reports its log position", func() error {
		status, err := node.Status(sc.Context())
		till = max(status.Epoch, status.Proposed) + 1
		return err
	})
	sc.request("uncordon", node, func(policy cluster.Policy) bool {
		return !slices.Contains(append(policy.Drained, policy.Cordoned...), node.ID)
	})
	for i := range sc.drains {
		if d := &sc.drains[i]; d.Node == node.ID && d.Until == 0 {
			d.Until, d.Entries.Before = history.Now(), till
		}
	}
	for i := range sc.cordons {
		if e := &sc.cordons[i].Entries; sc.cordons[i].Node == node.ID && e.Before == 0 {
			e.Before = till
		}
	}
}

// request sends a request of an operator to a node until the log of that node contains
// it. It returns the index of its log entry.
func (sc *scenario) request(verb string, node *cluster.Node, done func(cluster.Policy) bool, options ...string) (since uint64) {
	args, accepted := url.Values{"node": {node.ID}}, false
	for i := 0; i+1 < len(options); i += 2 {
		args.Set(options[i], options[i+1])
	}
	cluster.Await(sc, verb+" "+node.ID, func() error { // The leader may have changed just now.
		policy, err := node.Policy(sc.Context())
		if err == nil && !done(policy) {
			if !accepted {
				err = node.Try(sc.Context(), verb, args)
				accepted = err == nil
			}
			if err == nil {
				err = errors.New("its log does not contain the request yet")
			}
		}
		since = policy.Since
		return err
	})
	return since
}

// awaitEmpty waits until a node owns no shards, according to the other nodes.
func (sc *scenario) awaitEmpty(node *cluster.Node) {
	cluster.Await(sc, node.ID+" owns no shards", func() error {
		var errs []error
		for _, other := range sc.others(node) {
			shardMap, err := other.Map(sc.Context())
			if left := shardMap.Counts()[node.ID]; err == nil && left > 0 {
				err = fmt.Errorf("%d shards", left)
			}
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// command runs a command of the program.
func (sc *scenario) command(args ...string) error {
	ctx, cancel := context.WithTimeout(sc.Context(), cluster.Patience)
	defer cancel()
	if out, err := exec.CommandContext(ctx, sc.o.Binaries.Node, args...).CombinedOutput(); err != nil { //nolint:gosec // the test's own
		return fmt.Errorf("%v: %w: %s", args, err, out)
	}
	return nil
}
