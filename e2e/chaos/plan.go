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

// What operators ask is no fault of a node: nothing may fail, and maps go by it.

// drain has a node own nothing: because an operator says so, until he takes that back, or
// because it asks for that itself before it is told to stop.
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

// alone: beside other faults it may be refused, and waits for what they stop.
func (*drain) alone() {}

func (f *drain) begin(w *world) {
	f.victim = w.pick(anybody)
	if f.self {
		w.drains = append(w.drains, history.Drain{Node: f.victim.ID, From: history.Now()})
		w.must(w.command("drain", "--local", "--data", f.victim.Data))
		return
	}
	w.drain(f.victim)
}

// during has it serve nobody but as an ingress.
func (f *drain) during(w *world) {
	w.awaitEmpty(f.victim)
	w.flow()
	if f.self {
		w.note("SIGTERM %s", f.victim.ID)
		f.victim.Stop(w)
		w.flow()
	}
}

func (f *drain) end(w *world) {
	if f.self {
		w.start(f.victim)
		w.drains[len(w.drains)-1].Until = history.Now()
		return
	}
	w.uncordon(f.victim)
}

// cordon has a node get nothing new while another one stops, whose shards go to others, and
// comes back.
type cordon struct{ victim, other *cluster.Node }

func (*cordon) name() string { return "cordon" }

func (*cordon) alone() {}

func (f *cordon) begin(w *world) {
	f.victim, f.other = w.pick(anybody), w.pick(anybody)
	w.note("%s is cordoned", f.victim.ID)
	since := w.ask("cordon", f.victim, func(p cluster.Policy) bool { return slices.Contains(p.Cordoned, f.victim.ID) })
	w.cordons = append(w.cordons, history.Cordon{Node: f.victim.ID, Entries: history.Entries{Since: since}})
}

func (f *cordon) during(w *world) {
	w.note("SIGTERM %s", f.other.ID)
	f.other.Stop(w)
	w.awaitEmpty(f.other)
	w.flow()
	w.start(f.other)
	cluster.Await(w, f.other.ID+" has shards again", func() error {
		m, err := f.victim.Map(w.Context())
		if err == nil && m.Counts()[f.other.ID] == 0 {
			err = errors.New("none")
		}
		return err
	})
	w.flow()
}

func (f *cordon) end(w *world) { w.uncordon(f.victim) }

// drain asks for a node to own nothing, sometimes gently.
func (w *world) drain(n *cluster.Node) {
	var how []string
	if w.rng.IntN(2) == 0 {
		how = []string{"idle_first", "2s"}
	}
	w.note("%s is drained %v", n.ID, how)
	w.drains = append(w.drains, history.Drain{Node: n.ID, From: history.Now()})
	w.drains[len(w.drains)-1].Entries.Since = w.ask("drain", n, func(p cluster.Policy) bool { return slices.Contains(p.Drained, n.ID) }, how...)
}

// uncordon takes back what was asked of a node. What is proposed from now on may go by that.
func (w *world) uncordon(n *cluster.Node) {
	w.note("%s is uncordoned", n.ID)
	var till uint64
	cluster.Await(w, n.ID+" knows the log", func() error {
		s, err := n.Status(w.Context())
		till = max(s.Epoch, s.Proposed) + 1
		return err
	})
	w.ask("uncordon", n, func(p cluster.Policy) bool { return !slices.Contains(append(p.Drained, p.Cordoned...), n.ID) })
	for i := range w.drains {
		if d := &w.drains[i]; d.Node == n.ID && d.Until == 0 {
			d.Until, d.Entries.Till = history.Now(), till
		}
	}
	for i := range w.cordons {
		if e := &w.cordons[i].Entries; w.cordons[i].Node == n.ID && e.Till == 0 {
			e.Till = till
		}
	}
}

// ask has a node pass on what an operator wants of it, until its log says so, and returns
// from which entry on.
func (w *world) ask(verb string, n *cluster.Node, done func(cluster.Policy) bool, more ...string) (since uint64) {
	args, taken := url.Values{"node": {n.ID}}, false
	for i := 0; i+1 < len(more); i += 2 {
		args.Set(more[i], more[i+1])
	}
	cluster.Await(w, verb+" "+n.ID, func() error { // whose leader may just have changed
		p, err := n.Policy(w.Context())
		if err == nil && !done(p) {
			if !taken {
				err = n.Try(w.Context(), verb, args)
				taken = err == nil
			}
			if err == nil {
				err = errors.New("its log does not say so yet")
			}
		}
		since = p.Since
		return err
	})
	return since
}

// awaitEmpty waits until a node owns nothing, as far as the others know.
func (w *world) awaitEmpty(n *cluster.Node) {
	cluster.Await(w, n.ID+" owns nothing", func() error {
		var errs []error
		for _, other := range w.others(n) {
			m, err := other.Map(w.Context())
			if left := m.Counts()[n.ID]; err == nil && left > 0 {
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
func (w *world) command(args ...string) error {
	ctx, cancel := context.WithTimeout(w.Context(), cluster.Patience)
	defer cancel()
	if out, err := exec.CommandContext(ctx, w.o.Binaries.Node, args...).CombinedOutput(); err != nil { //nolint:gosec // the test's own
		return fmt.Errorf("%v: %w: %s", args, err, out)
	}
	return nil
}
