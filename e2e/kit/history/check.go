package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
)

// History is everything that was seen, on one clock. The order of its slices does
// not matter.
type History struct {
	Answers    []Answer
	Followers  []Follower
	Runs       []Run
	Admissions []Admission
	// Maps are the committed maps, as far as they were seen.
	Maps []Map
	// Faults are what was done to the nodes.
	Faults []Fault
	// Waits are how the nodes fared on a busy machine.
	Waits []Wait
	// Drains and Cordons are what operators asked for. A drain excuses that a node is left
	// out of a map; else they excuse nothing.
	Drains  []Drain
	Cordons []Cordon
	// VotesFrom is when nodes that joined what was there got a vote. They count for no
	// majority before that; who is not named counts all the time.
	VotesFrom map[string]int64
}

// judge is what Check knows about a history.
type judge struct {
	h      History
	rules  Rules
	report *Report

	maps   []Map            // in the order of their epochs
	runs   map[string][]Run // by request
	shards map[uint32][]Run // in the order of their starts, without Admissions
	// leases are the moments at which each node showed that it had a lease, in order.
	leases map[string][]int64
	// ingress is the node that each request was sent to in the end.
	ingress map[string]string
	// long tells of each fault whether it lasted: see judge.brief.
	long []bool
	// outside collects the ids of requests whose runs were excused for being
	// beside another owner's.
	outside map[string]bool
}

// Check judges h by the rules.
func Check(h History, rules Rules) *Report {
	j := &judge{
		h: h, rules: rules.normal(), maps: ordered(h.Maps),
		report: &Report{Requests: len(h.Answers), Runs: len(h.Runs), Excused: make(map[string]int), Overlapped: make(map[uint32]int)},
		runs:   make(map[string][]Run, len(h.Answers)), shards: make(map[uint32][]Run), leases: make(map[string][]int64),
		ingress: make(map[string]string, len(h.Answers)), outside: make(map[string]bool),
	}
	j.index()
	j.owned()
	j.drops()
	j.plans()
	j.graces()
	j.answers()
	j.followers()
	j.rest()
	return j.report
}

func byStart(a, b Run) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Epoch, b.Epoch))
}

// index sorts what there is.
func (j *judge) index() {
	for _, run := range j.h.Runs {
		j.runs[run.ID] = append(j.runs[run.ID], run)
		j.shards[run.Shard] = append(j.shards[run.Shard], run)
		j.leases[run.App] = append(j.leases[run.App], run.Start)
	}
	for _, a := range j.h.Admissions {
		j.leases[a.Node] = append(j.leases[a.Node], a.From, a.Until)
	}
	for _, runs := range j.shards {
		slices.SortFunc(runs, byStart)
	}
	for _, at := range j.leases {
		slices.Sort(at)
	}
	for i := range j.h.Answers {
		j.ingress[j.h.Answers[i].ID] = j.rules.node(j.h.Answers[i].final().Target)
	}
	for _, f := range j.h.Followers {
		for _, c := range f.Follows {
			j.ingress[c.ID] = j.rules.node(c.Target)
		}
	}
	j.report.Shards = len(j.shards)
	j.spells()
	for i := range j.h.Faults {
		f := &j.h.Faults[i]
		if f.Kind == Stalled && !j.brief(i) && slices.ContainsFunc(j.h.Answers, func(a Answer) bool { return f.during(a.Sent(), a.Done()) }) {
			j.report.Stalled += time.Duration(f.until() - f.From)
		}
	}
}

// owned judges the runs of each shard among each other.
func (j *judge) owned() {
	all := make(map[uint32][]Run, len(j.shards))
	for s, runs := range j.shards {
		all[s] = slices.Clone(runs)
	}
	for i := range j.h.Admissions {
		run := j.h.Admissions[i].run()
		all[run.Shard] = append(all[run.Shard], run)
	}
	for _, runs := range all {
		s := &shard{judge: j, runs: runs}
		s.judgeRuns()
	}
}

func (j *judge) answers() {
	asked := make(map[string]bool, len(j.h.Answers))
	for i := range j.h.Answers {
		a := &j.h.Answers[i]
		if asked[a.ID] {
			j.report.add(SecondAnswer, "%s %s has two answers", a.Method, a.ID)
		}
		asked[a.ID] = true
		j.answer(a)
	}
}

// rest judges the runs for themselves, and those whose answers are not here.
func (j *judge) rest() {
	for id, runs := range j.runs {
		if _, ok := j.ingress[id]; ok {
			continue
		}
		denied, known := j.rules.Known[id]
		switch {
		case !known:
			j.report.add(UnknownRun, "%s ran %s %q, key %q", runs[0].App, runs[0].Method, id, runs[0].Key)
		case denied:
			j.report.add(DeniedRun, "%s %s had been answered 503, and ran on %s (epoch %d)", runs[0].Method, id, runs[0].App, runs[0].Epoch)
		}
		j.once(runs) // whoever judged its answer, it may have run again since
	}
	for i := range j.h.Runs {
		j.headers(&j.h.Runs[i])
	}
}

// answer judges one request: what its client got, and what ran for it.
func (j *judge) answer(a *Answer) {
	r, runs := j.report, j.runs[a.ID]
	j.attempts(a)
	if a.Extra > 0 {
		r.add(SecondAnswer, "%s %s: %d bytes after the answer", a.Method, a.ID, a.Extra)
	}
	j.once(runs)
	if a.Denied() && len(runs) > 0 {
		r.add(DeniedRun, "%s %s was answered 503 %s, and ran on %s (epoch %d)", a.Method, a.ID, a.Error, runs[0].App, runs[0].Epoch)
		return
	}
	if a.OK() {
		r.Answered++
		j.own(a, runs)
		return
	}
	if a.Fenced() {
		j.own(a, runs)
		if j.outside[a.ID] {
			r.Fenced++
			return
		}
	}
	why, late := j.failure(a)
	if why != "" {
		r.Excused[why]++
		return
	}
	kind, most := Failed, ""
	switch {
	case late != 0:
		kind, most = FailedLate, ", "+time.Duration(a.Done()-late).String()+" after it had to work again"
	case a.Status == 0:
		kind = Lost
	case a.Cut:
		kind = CutAnswer
	}
	r.add(kind, "%s %s, key %q at %s after %v: %d %s%s%s", a.Method, a.ID, a.Key, a.final().Target,
		time.Duration(a.Done()-a.Sent()), a.Status, strings.TrimSpace(a.words()), most, j.ran(a, runs))
}

// ran tells where a request ran, and what was done to whom meanwhile, for whoever
// looks for the reason of a failure.
func (j *judge) ran(a *Answer, runs []Run) string {
	var b strings.Builder
	since := func(t int64) time.Duration { return time.Duration(t - a.Sent()).Round(time.Millisecond) }
	for _, run := range runs {
		fmt.Fprintf(&b, "; ran on %s (epoch %d) from %v to %v, cut: %v", run.App, run.Epoch, since(run.Start), since(run.end()), run.Cut)
	}
	for i := range j.h.Faults {
		if f := &j.h.Faults[i]; f.From <= a.Done() && a.Sent() <= j.rules.mended(f) {
			fmt.Fprintf(&b, "; %s %s%s from %v to %v", f.Node, f.Kind, f.Peer, since(f.From), since(f.until()))
		}
	}
	return b.String()
}

// words are what the answer, or the lack of one, says.
func (a *Answer) words() string {
	switch {
	case a.Status == 0:
		return a.final().Err
	case a.Cut:
		return "cut: " + a.final().Err
	}
	return a.Error + " " + a.Detail
}

// own judges the app's answer to one request against its runs.
func (j *judge) own(a *Answer, runs []Run) {
	r := j.report
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
func (j *judge) once(runs []Run) {
	if len(runs) > 1 && !safe(runs[0].Method) {
		j.report.add(DoubleRun, "%s %s ran on %s (epoch %d) and on %s (epoch %d)",
			runs[0].Method, runs[0].ID, runs[0].App, runs[0].Epoch, runs[1].App, runs[1].Epoch)
	}
}

// headers judges what one run was told.
func (j *judge) headers(run *Run) {
	r := j.report
	if run.Epoch == 0 || run.Key == "" {
		r.add(BadHeader, "%s ran %s with key %q and epoch %d", run.App, run.ID, run.Key, run.Epoch)
	}
	if run.Node != run.App {
		r.add(BadHeader, "%s ran %s for node %q", run.App, run.ID, run.Node)
	}
	if n := j.rules.Shards; n > 0 {
		if want := shardOf(run.Key, n); run.Shard != want {
			r.add(BadHeader, "key %q ran in shard %d, want %d", run.Key, run.Shard, want)
		}
	}
}

// shardOf is the published hash.
func shardOf(key string, shards int) uint32 {
	return uint32(xxhash.Sum64String(key) % uint64(shards))
}
