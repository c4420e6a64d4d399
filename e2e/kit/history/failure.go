package history

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"shardway/internal/problem"
)

// tries is how often a safe request is sent, if its way breaks each time.
const tries = 3

// failure is why a request that failed had a right to; empty if it had none. late,
// if not zero, is until when it had one.
//
// It never has one unless something was done to its ingress node or to an owner of
// its shard while it was under way, or to so many nodes that no majority was left.
// And each reason ends, Rules.Settle after it must work again:
//   - as its shard is served by another owner, if the owner was at fault;
//   - as what was done to its ingress node is mended.
//
// One has nothing to do with faults: what had run for DrainTimeout as its shard
// moved may be cut.
func (j *judge) failure(a *Answer) (why string, late int64) {
	if len(a.Attempts) == 0 {
		return "", 0
	}
	if a.Status == 0 {
		return j.loss(a), 0
	}
	if why := cmp.Or(j.drained(a), j.lapsed(a), j.unheld(a)); why != "" {
		return why, 0
	}
	shard, ok := j.shardOf(a)
	if !ok {
		return "", 0
	}
	waited := j.waited(a)
	if a.Status == http.StatusServiceUnavailable && !waited {
		return "", 0 // a full queue, say: no fault is a reason for that
	}
	ingress := j.ingress[a.ID]
	owners := j.owners(shard, a.Sent(), a.Done())
	// Without a majority nobody has a lease: what comes in waits, wherever it is, and
	// what runs is cut after a while. One that is there for half of a wait is in time.
	alone := j.alone(a)
	apart := waited && alone > j.rules.least(j.rules.QueueWait/2) || !waited && alone > j.rules.least(j.rules.DeadAfter/2)
	for i := range j.h.Faults {
		f := &j.h.Faults[i]
		at, of := f.touches(ingress), false
		for node := range owners {
			of = of || f.touches(node)
		}
		if !at && !of && !apart || a.Done() < f.From || j.brief(i) {
			continue
		}
		if f.Kind == Left && !apart && (!of || !waited || !j.countedAnew(a, f)) {
			continue
		}
		reason := j.way(a, f, at || apart, of, apart)
		if reason == "" {
			continue
		}
		until := j.ends(a, f, shard, at || apart)
		if apart && f.Kind == Killed { // the lease that ended with it cuts no sooner
			until = max(until, after(f.From, int64(j.rules.DeadAfter+j.rules.Settle)))
		}
		if j.cutWith(a, f) { // no lease since, and what runs is cut when that is long enough ago
			until = max(until, after(f.until(), int64(j.rules.DeadAfter)))
		}
		if a.Done() <= until && (!waited || a.final().Sent <= f.until()) {
			return reason, 0
		}
		if a.Done() <= until {
			until = f.until() // it was sent after that
		}
		late = max(late, until)
	}
	return "", late
}

// countedAnew tells whether a request may have waited that long for an owner that restarts
// in place. Each leader counts its grace anew, so where something was done to another
// node while it was away, it may end that much later than what was done to that one.
func (j *judge) countedAnew(a *Answer, f *Fault) bool {
	anew := int64(f.Grace + j.rules.DeadAfter + j.rules.Settle)
	return f.Grace > 0 && slices.ContainsFunc(j.h.Faults, func(g Fault) bool {
		return g.Node != f.Node && f.From <= g.until() && g.From <= a.Done() && a.Done() <= after(j.rules.mended(&g), anew)
	})
}

// cutWith tells whether the node that something was done to cut what it ran of the
// request. A node that was dropped for it gets no lease before it has drained, so what
// runs on in a shard that went elsewhere is cut 0.85 dead-after after the last lease,
// though all is mended by then.
func (j *judge) cutWith(a *Answer, f *Fault) bool {
	return slices.ContainsFunc(j.runs[a.ID], func(r Run) bool { return r.Cut && f.touches(r.App) })
}

// loss is the reason for a request without any answer: the process that it had
// been sent to died, or nobody listened and its client does not try twice.
func (j *judge) loss(a *Answer) string {
	last := a.final()
	node := j.rules.node(last.Target)
	switch {
	case !last.Refused && j.died(node, &last):
		return "lost, its ingress died"
	case last.Refused && len(a.Attempts) == 1 && j.absent(node, &last):
		return "nobody listened"
	}
	return ""
}

// drained is the reason of what was cut because its shard had to move.
func (j *judge) drained(a *Answer) string {
	if a.Error != "shard-moved" && !a.Cut {
		return ""
	}
	for _, run := range j.runs[a.ID] {
		over, cut := run.end(), run.Cut
		if !cut && j.unread(a, run) {
			over, cut = a.Done(), true
		}
		if cut && over-run.Start >= j.rules.least(j.rules.DrainTimeout) {
			return "cut by the drain"
		}
	}
	return ""
}

// unread tells whether the node of a run stood still as its app answered, and was
// continued only now: a node cuts what it has drained for too long before it reads. Of
// stops with nothing between them the last one counts.
func (j *judge) unread(a *Answer, run Run) bool {
	stood := func(at int64) (until int64) {
		for i := range j.h.Faults {
			if f := &j.h.Faults[i]; f.Kind == Stopped && f.Node == run.App && f.during(at, at) {
				until = max(until, f.until())
			}
		}
		return until
	}
	until := stood(run.end())
	for next := stood(until); until > 0 && next > until; next = stood(until) {
		until = next
	}
	return until > 0 && until <= a.Done() && a.Done() <= after(until, int64(j.rules.CutNotice))
}

// lapsed is the reason of what was cut because the lease of its node had ended for so
// long: 0.85 dead-after after the node had shown one for the last time, less the lease.
// No node that is hurt alone ends another's lease for that long.
func (j *judge) lapsed(a *Answer) string {
	if a.Status != http.StatusBadGateway || !a.mayHaveRun() || a.Safe() {
		return ""
	}
	long := j.rules.least(j.rules.DeadAfter*17/20 - j.rules.Lease)
	for _, run := range j.runs[a.ID] {
		leased, ok := j.leased(run.App, run.end())
		if run.Cut && ok && run.end()-leased >= long && a.Done() <= after(run.end(), int64(j.rules.Settle)) && j.shaken(leased, run.end()) {
			return "cut, its lease had ended"
		}
	}
	return ""
}

// unheld is the reason of what an app that is back did not hold, and whose body was too big
// for its node to have kept: nobody has known until then that the app has forgotten its
// shards. So it ends, for a shard, with the first of its requests that has run there since.
func (j *judge) unheld(a *Answer) string {
	shard, ok := j.shardOf(a)
	if !ok || a.Error != string(problem.UpstreamBroken) || !strings.Contains(a.Detail, problem.UnheldInPart) || len(j.runs[a.ID]) > 0 {
		return ""
	}
	owners := j.owners(shard, a.final().Sent, a.Done())
	back := make(map[string]int64) // when the app of a node was there for the last time
	for i := range j.h.Faults {
		if f := &j.h.Faults[i]; f.Kind == NoApp && owners[f.Node] && f.By != 0 && f.By <= a.Done() { // who started it may notice later that it answers
			back[f.Node] = max(back[f.Node], f.until())
		}
	}
	for _, r := range j.shards[shard] {
		if at, ok := back[r.App]; ok && r.Start >= at && after(r.end(), int64(j.rules.Settle)) < a.Done() {
			delete(back, r.App)
		}
	}
	if len(back) > 0 {
		return "the app had forgotten its shard"
	}
	return ""
}

// shaken tells whether more than one node was hurt, or left, in a time, each for Rules.Settle
// longer than what was done to it lasted. One alone keeps the others from nothing for
// long: they elect a leader, and take what it has. With a second one, whom they may need
// for that, it may last.
func (j *judge) shaken(from, until int64) bool {
	nodes := make(map[string]bool)
	for i := range j.h.Faults {
		f := &j.h.Faults[i]
		if f.From <= until && from <= after(f.until(), int64(j.rules.Settle)) && !j.brief(i) {
			nodes[f.Node], nodes[cmp.Or(f.Peer, f.Node)] = true, true
		}
	}
	return len(nodes) > 1
}

// way tells how a fault may end a request in the way it ended. at tells that it was
// done to the request's ingress node, of to an owner, apart that no majority was left.
// What is safe is not given up before it has been broken off as often as it is tried.
func (j *judge) way(a *Answer, f *Fault, at, of, apart bool) string {
	silent := f.wires() || of && (f.Kind == Stopped || f.dead()) && j.shaken(a.final().Sent, a.Done()) || // who was to be reached
		at && f.Kind == Stopped && j.slept(a, f) || at && j.deaf(a, f) // who was to reach them
	switch {
	case a.Status == http.StatusOK && a.Cut:
		if f.touches(a.App) || at && f.Kind != NoApp {
			return "cut, " + f.Kind.String()
		}
	case a.Error == "":
		// an error of the app: whether it was fenced rightly was judged before
	case j.waited(a) && (a.Error != "peer-unreachable" || silent || apart || a.Status == http.StatusBadGateway):
		return "waited in vain: " + a.Error
	case a.Status == http.StatusBadGateway && a.mayHaveRun() && (!a.Safe() || len(j.runs[a.ID])+j.astray(a) >= tries || j.wrecks(a) > 1):
		return "may have run: " + a.Error
	case a.Status == http.StatusBadGateway && a.Error == "upstream-refused" && f.Kind == NoApp:
		return a.Error
	case a.Status == http.StatusBadGateway && a.Error == "peer-unreachable" && f.wires():
		return a.Error
	case a.Error == "upstream-connect-timeout" && f.Kind == Stopped:
		return a.Error // it was not there to see that the app took the connection
	}
	return ""
}

// slept tells whether somebody stood still as the time of a request went by.
func (j *judge) slept(a *Answer, f *Fault) bool {
	over := after(a.final().Sent, j.rules.least(j.rules.QueueWait))
	return f.during(over, over)
}

// deaf tells whether the ingress node of a request waited for an owner that was gone because
// its own log stood still, and does so as the time of the request goes by: it had not heard
// by then who took the shard over, and nodes learn that from their logs alone.
func (j *judge) deaf(a *Answer, f *Fault) bool {
	over := after(a.final().Sent, j.rules.least(j.rules.QueueWait))
	shard, _ := j.shardOf(a)
	if f.Kind != BadDisk && f.Kind != Behind || f.Node != j.ingress[a.ID] || !f.during(over, over) {
		return false
	}
	for i := 1; i < len(j.maps); i++ {
		old, m := &j.maps[i-1], &j.maps[i]
		if int(shard) >= min(len(old.Owners), len(m.Owners)) || m.At < f.From || m.At > a.Done() || m.Owners[shard] == old.Owners[shard] {
			continue
		}
		if slices.ContainsFunc(j.h.Faults, func(g Fault) bool {
			return g.Node == old.Owners[shard] && g.Node != f.Node && (g.dead() || g.Kind == Stopped || g.Kind == Left) && g.during(over, over)
		}) {
			return true
		}
	}
	return false
}

// astray is how often a request may have been sent and reached no app, which counts
// as a try: packets to another node were lost when it was sent, not only when it was
// broken off. So each time after the first that they began to be lost is one. And of
// a node that dies under it, one more kept connection may be tried before that shows.
func (j *judge) astray(a *Answer) int {
	began, died := make(map[int64]bool), 0
	for i := range j.h.Faults {
		f := &j.h.Faults[i]
		met := f.touches(j.ingress[a.ID]) || slices.ContainsFunc(j.runs[a.ID], func(r Run) bool { return f.touches(r.App) })
		if met && f.wires() && f.during(a.Sent(), a.Done()) {
			began[f.From] = true
		}
		if f.dead() && slices.ContainsFunc(j.runs[a.ID], func(r Run) bool {
			return r.Cut && r.App == f.Node && f.From <= r.end() && r.end() <= after(f.By, int64(j.rules.CutNotice))
		}) {
			died = 1 // two in all go over kept ones, and the run was the first
		}
	}
	return max(len(began)-1, 0) + died
}

// wrecks is how many processes a request may have been broken off at: what was under way
// at two that broke is given to no third, for it may be what ended them. Each time that
// somebody who owned its shard, or ran it, died, stood still or was cut off is one; also
// if that was a little before, for a kept connection shows it only when it is used.
func (j *judge) wrecks(a *Answer) int {
	type end struct {
		node string
		from int64
	}
	ends := make(map[end]bool)
	since := a.Sent() - int64(j.rules.Settle)
	shard, _ := j.shardOf(a)
	met := j.owners(shard, a.Sent(), a.Done())
	for _, r := range j.runs[a.ID] {
		met[r.App] = true
	}
	for node := range met {
		for i := range j.h.Faults {
			f := &j.h.Faults[i]
			if f.touches(node) && (f.dead() || f.Kind == Stopped && !j.brief(i) || f.wires()) && f.during(since, a.Done()) {
				ends[end{node, f.From}] = true
			}
		}
	}
	return len(ends)
}

// mayHaveRun tells whether the answer says so.
func (a *Answer) mayHaveRun() bool { return strings.Contains(a.Detail, "may have run") }

// waited tells whether the request failed because it had waited for all the time that
// it may: it was denied, or it is safe, had been tried before, and waited to be tried
// again.
func (j *judge) waited(a *Answer) bool {
	switch {
	case a.Done()-a.final().Sent < j.rules.least(j.rules.QueueWait):
		return false
	case a.Status == http.StatusServiceUnavailable:
		return a.Error == "no-leader" || a.Error == "queue-timeout" || a.Error == "peer-unreachable" || a.Error == "upstream-busy"
	}
	return a.Status == http.StatusBadGateway && a.Safe() && a.mayHaveRun()
}

// ends is until when a fault may make a request of a shard fail.
func (j *judge) ends(a *Answer, f *Fault, shard uint32, at bool) int64 {
	until := j.rules.mended(f)
	if f.Kind == Killed {
		until = min(until, orNever(f.By)) // its connections broke with it
		if j.waited(a) {
			until = f.until()
		}
	}
	if j.waited(a) {
		until = after(until, int64(j.rules.QueueWait)) // begun before it was mended
	}
	if !at {
		until = min(until, j.servedAgain(f, shard, a.Done()))
	}
	return after(until, int64(j.rules.Settle))
}

// brief tells whether a node was stopped, or the machine busy, for less than a lease:
// so it may hold requests up, and fails none. Stops with less than a lease between them
// are one.
func (j *judge) brief(fault int) bool { return !j.long[fault] }

// spells finds out which faults are brief, of all at once: on a starved machine there are
// thousands.
func (j *judge) spells() {
	j.long = make([]bool, len(j.h.Faults))
	lease := int64(j.rules.Lease)
	var stops []int
	for i := range j.h.Faults {
		if f := &j.h.Faults[i]; f.Kind == Stopped || f.Kind == Stalled {
			stops = append(stops, i)
		} else {
			j.long[i] = true
		}
	}
	slices.SortFunc(stops, func(x, y int) int {
		f, g := &j.h.Faults[x], &j.h.Faults[y]
		return cmp.Or(cmp.Compare(f.Kind, g.Kind), cmp.Compare(f.Node, g.Node), cmp.Compare(f.From, g.From))
	})
	for n := 0; n < len(stops); {
		first, end := &j.h.Faults[stops[n]], n+1
		until := first.until()
		for ; end < len(stops); end++ {
			f := &j.h.Faults[stops[end]]
			if f.Kind != first.Kind || f.Node != first.Node || f.From >= after(until, lease) {
				break
			}
			until = max(until, f.until())
		}
		for _, i := range stops[n:end] {
			j.long[i] = until == never || until-first.From >= lease
		}
		n = end
	}
}

// shardOf is the shard of a request; false if it is not known.
func (j *judge) shardOf(a *Answer) (uint32, bool) {
	if n := j.rules.Shards; n > 0 {
		return shardOf(a.Key, n), true
	}
	for _, run := range j.runs[a.ID] {
		return run.Shard, true
	}
	return 0, false
}
