//go:build linux

package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
)

// History is everything that was seen. The order of its slices does not matter.
type History struct {
	Answers []Answer
	Runs    []Run
	Stops   []Stop
	Resets  []Reset
}

// Rules are what a test knows beside the history. Zero is the strictest.
type Rules struct {
	// Shards is the cluster's number of shards; 0 leaves the hash unchecked.
	Shards int
	// Excuse gives the reason why a failed answer is right here, empty if it is
	// not. Nil excuses nothing.
	Excuse func(*Answer) string
	// Known are ids of requests that were sent beside those of the history: their
	// runs are not unknown, their answers are judged elsewhere.
	Known map[string]bool
	// Fence is the nodes' --fence: "lease", "refused", or "strict", which is also
	// what empty means.
	Fence string
	// Lease and DeadAfter are the nodes' own; 0 are their defaults, 500 ms and
	// 2.5 s.
	Lease, DeadAfter time.Duration
	// CutNotice is how late an app may notice that its node gave a request up,
	// and so how far such a run may reach into the next owner's. 0 is 250 ms.
	CutNotice time.Duration
}

// Check judges h by the rules.
func Check(h History, rules Rules) *Report {
	rules.Lease = cmp.Or(rules.Lease, 500*time.Millisecond)
	rules.DeadAfter = cmp.Or(rules.DeadAfter, 2500*time.Millisecond)
	rules.CutNotice = cmp.Or(rules.CutNotice, 250*time.Millisecond)
	r := &Report{Requests: len(h.Answers), Runs: len(h.Runs), Excused: make(map[string]int)}
	runs := make(map[string][]Run, len(h.Answers))
	shards := make(map[uint32][]Run)
	for _, run := range h.Runs {
		runs[run.ID] = append(runs[run.ID], run)
		shards[run.Shard] = append(shards[run.Shard], run)
	}
	r.Shards = len(shards)
	outside := make(map[string]bool)
	for _, in := range shards {
		s := &shard{runs: in, stops: h.Stops, resets: h.Resets, rules: rules, report: r, outside: outside}
		s.judge()
	}
	asked := make(map[string]bool, len(h.Answers))
	for i := range h.Answers {
		a := &h.Answers[i]
		if asked[a.ID] {
			r.add(SecondAnswer, "%s %s has two answers", a.Method, a.ID)
		}
		asked[a.ID] = true
		r.answer(a, runs[a.ID], rules, outside[a.ID])
	}
	for id, all := range runs {
		if !asked[id] { // whoever judged its answer, it may have run again since
			r.once(all)
		}
	}
	for _, run := range h.Runs {
		if !asked[run.ID] && !rules.Known[run.ID] {
			r.add(UnknownRun, "%s ran %s %q, key %q", run.App, run.Method, run.ID, run.Key)
		}
		r.headers(run, rules)
	}
	return r
}

// answer judges one request: what its client got, and what ran for it. outside
// tells that it ran beside another owner, and that this is excused.
func (r *Report) answer(a *Answer, runs []Run, rules Rules, outside bool) {
	if len(a.Attempts) > 1 {
		r.Reattempts++
	}
	if a.Extra > 0 {
		r.add(SecondAnswer, "%s %s: %d bytes after the answer", a.Method, a.ID, a.Extra)
	}
	r.once(runs)
	if a.OK() {
		r.Answered++
		r.run(a, runs)
		return
	}
	if a.Fenced() {
		r.run(a, runs)
		if outside {
			r.Fenced++
			return
		}
	}
	if rules.Excuse != nil {
		if why := rules.Excuse(a); why != "" {
			r.Excused[why]++
			return
		}
	}
	switch {
	case a.Status == 0:
		r.add(Lost, "%s %s, key %q: %s", a.Method, a.ID, a.Key, a.last())
	case a.Cut:
		r.add(CutAnswer, "%s %s, key %q: %d bytes, then %s", a.Method, a.ID, a.Key, a.Bytes, a.last())
	default:
		r.add(Failed, "%s %s, key %q at %s after %v: %d %s %s", a.Method, a.ID, a.Key, a.target(),
			time.Duration(a.Done()-a.Sent()), a.Status, a.Error, a.Detail)
	}
}

// run judges the app's answer to one request against its runs.
func (r *Report) run(a *Answer, runs []Run) {
	if len(runs) == 0 {
		r.add(NoRun, "%s %s was answered by %q as %q", a.Method, a.ID, a.App, a.EchoID)
		return
	}
	if a.EchoID != a.ID {
		r.add(WrongAnswer, "%s %s got the answer to %q", a.Method, a.ID, a.EchoID)
		return
	}
	if !slices.ContainsFunc(runs, func(run Run) bool { return run.App == a.App }) {
		r.add(WrongAnswer, "%s %s was answered by %q and ran on %q", a.Method, a.ID, a.App, runs[0].App)
	}
}

// once judges how often one request ran.
func (r *Report) once(runs []Run) {
	if len(runs) > 1 && !safe(runs[0].Method) {
		r.add(DoubleRun, "%s %s ran on %s (epoch %d) and on %s (epoch %d)",
			runs[0].Method, runs[0].ID, runs[0].App, runs[0].Epoch, runs[1].App, runs[1].Epoch)
	}
}

// headers judges what one run was told.
func (r *Report) headers(run Run, rules Rules) {
	if run.Epoch == 0 || run.Key == "" {
		r.add(BadHeader, "%s ran %s with key %q and epoch %d", run.App, run.ID, run.Key, run.Epoch)
	}
	if run.Node != run.App {
		r.add(BadHeader, "%s ran %s for node %q", run.App, run.ID, run.Node)
	}
	if n := uint64(rules.Shards); n > 0 {
		if want := xxhash.Sum64String(run.Key) % n; uint64(run.Shard) != want {
			r.add(BadHeader, "key %q ran in shard %d, want %d", run.Key, run.Shard, want)
		}
	}
}

func (a *Answer) last() string {
	if len(a.Attempts) == 0 {
		return "never sent"
	}
	t := a.Attempts[len(a.Attempts)-1]
	return t.Target + ": " + t.Err
}

func (a *Answer) target() string {
	if len(a.Attempts) == 0 {
		return ""
	}
	return a.Attempts[len(a.Attempts)-1].Target
}
