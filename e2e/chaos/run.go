//go:build linux

package chaos

import (
	"fmt"
	"os"
	"testing"
	"time"

	"shardway/e2e/kit/netns"
)

// Available says why nothing can be run here; nil if a run can.
func Available() error { return netns.Available() }

// Run starts a cluster, hurts it round by round, and reports. The run ends early
// with the first round that has violations. It fails nothing by itself: what broke
// is in the report, and everything that was started has ended when it returns.
func Run(tb testing.TB, o Options) *Report {
	tb.Helper()
	o = o.normal()
	r := &Report{Options: o, Skipped: make(map[string]string)}
	playable := o.playable(r)
	if len(playable) == 0 {
		return r
	}
	b := &bench{TB: tb, quiet: o.Quiet}
	w := newWorld(b, o)
	b.do(func() {
		w.launch()
		d := newDeck(playable, o.Seed, o.Backwards)
		for range o.Dealt {
			d.deal()
		}
		w.play(r, d)
	})
	for _, text := range b.told() {
		r.Violations = append(r.Violations, Violation{Round: w.number, Faults: w.present, Kind: "broke", Text: text})
	}
	r.Trace = w.trace.String()
	return r
}

// playable returns the names of the faults that can be had, and notes why others cannot.
// That the options leave none is a short run; that nothing could be had with any is a
// mistake.
func (o *Options) playable(r *Report) (names []string) {
	unfit := false
	for _, f := range faults() {
		if !o.Faults.MatchString(f.name()) {
			continue
		}
		if why := o.unfit(f); why != "" {
			r.Skipped[f.name()], unfit = why, true
			continue
		}
		if n, ok := f.(needy); ok {
			if err := n.missing(); err != nil {
				r.Skipped[f.name()] = err.Error()
				continue
			}
		}
		names = append(names, f.name())
	}
	if len(names) == 0 && !unfit {
		r.Violations = append(r.Violations, Violation{Kind: "broke", Text: fmt.Sprintf("no fault matches %q, or none can be had", o.Faults)})
	}
	return names
}

// unfit says why a fault does not go with the options; empty: it does.
func (o *Options) unfit(f fault) string {
	switch f.(type) {
	case *killApp, *restartApp:
		if o.Embedded {
			return "the app is in its node, and dies with it"
		}
	case *hold:
		if !o.Hold {
			return "no node holds its shards"
		}
	case *badHooks:
		if !o.Hooks {
			return "the apps have no hooks"
		}
	}
	return ""
}

// play has rounds until the time is over or something broke.
func (w *world) play(r *Report, d *deck) {
	until := time.Now().Add(w.o.For)
	for k := 0; time.Now().Before(until) && (w.o.Rounds == 0 || k < w.o.Rounds); k++ {
		fs := d.round(w.o.Pairs)
		w.present = names(fs)
		began := time.Now()
		round := w.round(k, fs)
		r.Rounds = append(r.Rounds, round)
		r.add(round)
		w.Logf("%d nodes, round %d: %s: %v in %.1f s", w.o.Nodes, k, round.Faults, round.History, time.Since(began).Seconds())
		if len(round.Violations) > 0 {
			w.violated = true
			return
		}
	}
	w.present = "all together"
	last := w.finally()
	last.Number = -1
	r.Resumed = w.resumed()
	w.violated = len(last.Violations) > 0
	r.add(last)
}

// removeAll removes a directory unless it is to be kept.
func removeAll(dir string) error {
	if kept() {
		return nil
	}
	return os.RemoveAll(dir)
}

// kept tells whether data and logs are to be kept, until the next test runs.
func kept() bool { return os.Getenv("SHARDWAY_E2E_KEEP") != "" }
