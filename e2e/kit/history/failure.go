package history

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"shardway/internal/problem"
)

// maxSends is how often a node sends a safe request if its connections break.
const maxSends = 3

// failureReason returns the excuse of a failed request, or an empty string if it has none. If an
// excuse existed but ended before the failure, expiredAt is when it ended. Otherwise expiredAt is
// zero.
//
// A failed request has an excuse only after a fault of its ingress node or of an owner of
// its shard while the request was in flight, or while so many nodes had faults that no
// majority was left. Each excuse ends Rules.SettleTime after the request should work again:
//   - when another owner serves the shard, if the owner had the fault
//   - when the fault of the ingress node ends
//
// One excuse needs no fault: a run that lasted DrainTimeout may be aborted when its shard
// moves.
func (c *checker) failureReason(resp *Response) (reason string, expiredAt int64) {
	if len(resp.Attempts) == 0 {
		return "", 0
	}
	if resp.Status == 0 {
		return c.noResponseReason(resp), 0
	}
	if reason := cmp.Or(c.drainTimeoutReason(resp), c.expiredLeaseReason(resp), c.notHeldReason(resp)); reason != "" {
		return reason, 0
	}
	shard, ok := c.shardOf(resp)
	if !ok {
		return "", 0
	}
	timedOut := c.timedOutWaiting(resp)
	if resp.Status == http.StatusServiceUnavailable && !timedOut {
		return "", 0 // No fault is an excuse for other refusals, such as a full queue.
	}
	request := failedRequest{
		Response: resp, shard: shard, ingress: c.ingressNodes[resp.ID], owners: c.owners(shard, resp.Sent(), resp.Done()),
		timedOut: timedOut, noMajority: c.lackedMajority(resp, timedOut),
	}
	for i := range c.history.Faults {
		reason, validUntil := c.excuseByFault(&request, i)
		faultEnd := c.history.Faults[i].end()
		switch {
		case reason == "":
		case resp.Done() > validUntil:
			expiredAt = max(expiredAt, validUntil)
		case timedOut && resp.lastAttempt().Sent > faultEnd:
			expiredAt = max(expiredAt, faultEnd) // The request waited in the queue only after the fault.
		default:
			return reason, 0
		}
	}
	return "", expiredAt
}

// failedRequest is a request with an error response, and what is known about its surroundings.
type failedRequest struct {
	*Response

	shard   uint32
	ingress string
	// owners are the nodes that may have owned the shard while the request was in flight.
	owners map[string]bool
	// timedOut reports that the request waited for the whole queue timeout.
	timedOut bool
	// noMajority reports that a lack of a majority may have caused the failure.
	noMajority bool
}

// lackedMajority reports whether there was no majority for so long that a request may have failed.
// Without a majority no node gets a lease: new requests wait at every node, and running requests
// are aborted after a while. A majority that exists for half of that time prevents the failure.
func (c *checker) lackedMajority(resp *Response, timedOut bool) bool {
	minDuration := c.rules.DeadAfter / 2
	if timedOut {
		minDuration = c.rules.QueueWait / 2
	}
	return c.longestWithoutMajority(resp) > c.rules.shortestByAnyClock(minDuration)
}

// excuseByFault returns why one fault excuses the failure of a request, and until when. reason is
// empty if the fault is no excuse.
func (c *checker) excuseByFault(request *failedRequest, faultIndex int) (reason string, validUntil int64) {
	fault := &c.history.Faults[faultIndex]
	atIngress, atOwner := fault.affects(request.ingress), false
	for node := range request.owners {
		atOwner = atOwner || fault.affects(node)
	}
	if !atIngress && !atOwner && !request.noMajority || request.Done() < fault.From || c.isTooBrief(faultIndex) {
		return "", 0
	}
	if fault.Kind == Terminated && !request.noMajority && (!atOwner || !request.timedOut || !c.graceRestarted(request.Response, fault)) {
		return "", 0
	}
	reason = c.failureMode(request.Response, fault, atIngress || request.noMajority, atOwner, request.noMajority)
	if reason == "" {
		return "", 0
	}
	validUntil = c.excuseValidUntil(request.Response, fault, request.shard, atIngress || request.noMajority)
	if request.noMajority && fault.Kind == Killed { // Without a majority, running requests are aborted only DeadAfter later.
		validUntil = max(validUntil, addDuration(fault.From, int64(c.rules.DeadAfter+c.rules.SettleTime)))
	}
	if c.abortedByFaulty(request.Response, fault) { // The node has no lease since the fault, and aborts its requests DeadAfter later.
		validUntil = max(validUntil, addDuration(fault.end(), int64(c.rules.DeadAfter)))
	}
	return reason, validUntil
}

// graceRestarted reports whether the grace period of an owner that restarts in place may
// have outlasted the queue timeout of a request. A new leader restarts the grace period from
// the beginning. A fault of another node during the restart may cause an election, so the
// grace period may end that much later.
func (c *checker) graceRestarted(resp *Response, fault *Fault) bool {
	maxExtension := int64(fault.Grace + c.rules.DeadAfter + c.rules.SettleTime)
	return fault.Grace > 0 && slices.ContainsFunc(c.history.Faults, func(other Fault) bool {
		startedDuringRestart := other.Node != fault.Node && fault.From <= other.end() && other.From <= resp.Done()
		return startedDuringRestart && resp.Done() <= addDuration(c.rules.effectsEnd(&other), maxExtension)
	})
}

// abortedByFaulty reports whether a node with this fault aborted a run of the request. An
// excluded node gets no lease before it has drained its shards. So it aborts requests of
// reassigned shards 0.85 * DeadAfter after its last lease, even if the fault has ended by
// then.
func (c *checker) abortedByFaulty(resp *Response, fault *Fault) bool {
	return slices.ContainsFunc(c.runsByRequest[resp.ID], func(run Run) bool { return run.Aborted && fault.affects(run.App) })
}

// noResponseReason returns the excuse for a request without any response: its ingress process
// died, or no process listened and the client tries only once.
func (c *checker) noResponseReason(resp *Response) string {
	last := resp.lastAttempt()
	node := c.rules.node(last.Target)
	switch {
	case !last.Refused && c.diedDuring(node, &last):
		return "no response, the ingress node died"
	case last.Refused && len(resp.Attempts) == 1 && c.mayBeDown(node, &last):
		return "no process listened"
	}
	return ""
}

// drainTimeoutReason returns the excuse of a request that was aborted because its shard had to
// move.
func (c *checker) drainTimeoutReason(resp *Response) string {
	if resp.Error != "shard-moved" && !resp.Truncated {
		return ""
	}
	for _, run := range c.runsByRequest[resp.ID] {
		end, aborted := run.end(), run.Aborted
		if !aborted && c.responseReadLate(resp, run) {
			end, aborted = resp.Done(), true
		}
		if aborted && end-run.Start >= c.rules.shortestByAnyClock(c.rules.DrainTimeout) {
			return "aborted after the drain timeout"
		}
	}
	return ""
}

// responseReadLate reports whether the node of a run was paused when its app responded, and
// continued just before the request failed. After a pause, a node first aborts requests that
// have exceeded their drain timeout, and only then reads responses. Adjacent pauses
// count as one.
func (c *checker) responseReadLate(resp *Response, run Run) bool {
	pausedUntil := func(at int64) (until int64) {
		for i := range c.history.Faults {
			if fault := &c.history.Faults[i]; fault.Kind == Paused && fault.Node == run.App && fault.overlaps(at, at) {
				until = max(until, fault.end())
			}
		}
		return until
	}
	until := pausedUntil(run.end())
	for next := pausedUntil(until); until > 0 && next > until; next = pausedUntil(until) {
		until = next
	}
	return until > 0 && until <= resp.Done() && resp.Done() <= addDuration(until, int64(c.rules.MaxAbortNotice))
}

// expiredLeaseReason returns the excuse of a request that was aborted because its node had
// no lease for too long: 0.85 * DeadAfter after the node last held a lease, less the
// lease. A fault of a single node cannot end the lease of another node for that long.
func (c *checker) expiredLeaseReason(resp *Response) string {
	if resp.Status != http.StatusBadGateway || !resp.mayHaveRun() || resp.Safe() {
		return ""
	}
	minDuration := c.rules.shortestByAnyClock(c.rules.DeadAfter*17/20 - c.rules.Lease)
	for _, run := range c.runsByRequest[resp.ID] {
		lastLeased, ok := c.lastLease(run.App, run.end())
		if run.Aborted && ok && run.end()-lastLeased >= minDuration && resp.Done() <= addDuration(run.end(), int64(c.rules.SettleTime)) && c.severalNodesFaulty(lastLeased, run.end()) {
			return "aborted, the lease of its node had ended"
		}
	}
	return ""
}

// notHeldReason returns the excuse of a request for a shard that a restarted app did not
// hold, if the body was too large for the node to buffer. Before such a request the node
// cannot know that the app has lost its shards. The excuse ends for a shard after its
// first run on that node since the restart.
func (c *checker) notHeldReason(resp *Response) string {
	shard, ok := c.shardOf(resp)
	if !ok || resp.Error != string(problem.UpstreamBroken) || !strings.Contains(resp.Detail, problem.UnheldInPart) || len(c.runsByRequest[resp.ID]) > 0 {
		return ""
	}
	owners := c.owners(shard, resp.lastAttempt().Sent, resp.Done())
	restartedAt := make(map[string]int64) // last restart of the app, by node
	for i := range c.history.Faults {
		// fault.Until may be later than the response, because the test may notice late that the new
		// process of the app responds.
		if fault := &c.history.Faults[i]; fault.Kind == AppDown && owners[fault.Node] && fault.ExitedBy != 0 && fault.ExitedBy <= resp.Done() {
			restartedAt[fault.Node] = max(restartedAt[fault.Node], fault.end())
		}
	}
	for _, run := range c.runsByShard[shard] {
		at, ok := restartedAt[run.App]
		if ok && run.Start >= at && addDuration(run.end(), int64(c.rules.SettleTime)) < resp.Done() {
			delete(restartedAt, run.App) // The app has acquired the shard since the restart.
		}
	}
	if len(restartedAt) > 0 {
		return "the restarted app did not hold its shard"
	}
	return ""
}

// severalNodesFaulty reports whether more than one node had a fault, or was terminated, in an
// interval. Each fault counts for Rules.SettleTime longer than it lasted. After a fault of a single
// node, the other nodes soon elect a leader, which takes over the shards of the faulty node. A second
// faulty node can delay that, because the election may need its vote.
func (c *checker) severalNodesFaulty(from, until int64) bool {
	nodes := make(map[string]bool)
	for i := range c.history.Faults {
		fault := &c.history.Faults[i]
		if fault.From <= until && from <= addDuration(fault.end(), int64(c.rules.SettleTime)) && !c.isTooBrief(i) {
			nodes[fault.Node], nodes[cmp.Or(fault.Peer, fault.Node)] = true, true
		}
	}
	return len(nodes) > 1
}

// failureMode returns the way in which a fault made a request fail, or an empty string if
// the fault cannot explain the failure. atIngress reports a fault of the ingress node,
// atOwner a fault of an owner, and noMajority that no majority was left. A safe request fails
// only after it was aborted as often as it may be sent.
func (c *checker) failureMode(resp *Response, fault *Fault, atIngress, atOwner, noMajority bool) string {
	ownerUnresponsive := fault.isNetwork() || atOwner && (fault.Kind == Paused || fault.isCrash()) && c.severalNodesFaulty(resp.lastAttempt().Sent, resp.Done())
	ingressDelayed := atIngress && (fault.Kind == Paused && c.pausedAtDeadline(resp, fault) || c.missedTakeover(resp, fault))
	unresponsive := ownerUnresponsive || ingressDelayed
	switch {
	case resp.Status == http.StatusOK && resp.Truncated:
		if fault.affects(resp.App) || atIngress && fault.Kind != AppDown {
			return "truncated, " + fault.Kind.String()
		}
	case resp.Error == "":
		// The error comes from the app. checkResponse has checked whether the app fenced the
		// request correctly.
	case c.timedOutWaiting(resp) && (resp.Error != "peer-unreachable" || unresponsive || noMajority || resp.Status == http.StatusBadGateway):
		return "timed out in the queue: " + resp.Error
	case resp.Status == http.StatusBadGateway && resp.mayHaveRun() && (!resp.Safe() || len(c.runsByRequest[resp.ID])+c.countLostSends(resp) >= maxSends || c.countOwnerFailures(resp) > 1):
		return "may have run: " + resp.Error
	case resp.Status == http.StatusBadGateway && resp.Error == "upstream-refused" && fault.Kind == AppDown:
		return resp.Error
	case resp.Status == http.StatusBadGateway && resp.Error == "peer-unreachable" && fault.isNetwork():
		return resp.Error
	case resp.Error == "upstream-connect-timeout" && fault.Kind == Paused:
		return resp.Error // The paused node could not observe that the app accepted the connection.
	}
	return ""
}

// pausedAtDeadline reports whether the fault was active when the queue timeout of the
// request expired.
func (c *checker) pausedAtDeadline(resp *Response, fault *Fault) bool {
	deadline := addDuration(resp.lastAttempt().Sent, c.rules.shortestByAnyClock(c.rules.QueueWait))
	return fault.overlaps(deadline, deadline)
}

// missedTakeover reports whether the ingress node waited for a dead owner, because its own
// copy of the log was delayed at the time of the queue timeout. A node gets the new owner of
// a shard only from its own copy of the log.
func (c *checker) missedTakeover(resp *Response, fault *Fault) bool {
	deadline := addDuration(resp.lastAttempt().Sent, c.rules.shortestByAnyClock(c.rules.QueueWait))
	shard, _ := c.shardOf(resp)
	if fault.Kind != DiskFault && fault.Kind != LogDelayed || fault.Node != c.ingressNodes[resp.ID] || !fault.overlaps(deadline, deadline) {
		return false
	}
	for i := 1; i < len(c.maps); i++ {
		old, next := &c.maps[i-1], &c.maps[i]
		if int(shard) >= min(len(old.Owners), len(next.Owners)) || next.At < fault.From || next.At > resp.Done() || next.Owners[shard] == old.Owners[shard] {
			continue
		}
		if slices.ContainsFunc(c.history.Faults, func(other Fault) bool {
			return other.Node == old.Owners[shard] && other.Node != fault.Node && (other.isCrash() || other.Kind == Paused || other.Kind == Terminated) && other.overlaps(deadline, deadline)
		}) {
			return true
		}
	}
	return false
}

// countLostSends returns how often a node may have sent a request that reached no app. Each of
// these sends counts towards maxSends:
//   - Packets between nodes were lost while the request was in flight. The first start of packet
//     loss aborts a run, and each later start may lose one send.
//   - A node died while it ran the request. The ingress node may then use one more idle connection
//     before it detects the death.
func (c *checker) countLostSends(resp *Response) int {
	lossStarts, extraSends := make(map[int64]bool), 0
	for i := range c.history.Faults {
		fault := &c.history.Faults[i]
		isInvolved := fault.affects(c.ingressNodes[resp.ID]) || slices.ContainsFunc(c.runsByRequest[resp.ID], func(run Run) bool { return fault.affects(run.App) })
		if isInvolved && fault.isNetwork() && fault.overlaps(resp.Sent(), resp.Done()) {
			lossStarts[fault.From] = true
		}
		if fault.isCrash() && slices.ContainsFunc(c.runsByRequest[resp.ID], func(run Run) bool {
			return run.Aborted && run.App == fault.Node && fault.From <= run.end() && run.end() <= addDuration(fault.ExitedBy, int64(c.rules.MaxAbortNotice))
		}) {
			extraSends = 1 // The proxy sends over at most two idle connections, and the run was the first.
		}
	}
	return max(len(lossStarts)-1, 0) + extraSends
}

// countOwnerFailures returns at how many processes a request may have been aborted. A
// request that was in flight at two failed processes is not sent to a third, since the
// request may be the cause. Each death, pause or disconnection of a node that owned its
// shard, or ran it, counts. Failures shortly before the request also count, since an idle
// connection reports a failure only when it is used.
func (c *checker) countOwnerFailures(resp *Response) int {
	type failure struct {
		node string
		from int64
	}
	failures := make(map[failure]bool)
	since := resp.Sent() - int64(c.rules.SettleTime)
	shard, _ := c.shardOf(resp)
	nodes := c.owners(shard, resp.Sent(), resp.Done())
	for _, run := range c.runsByRequest[resp.ID] {
		nodes[run.App] = true
	}
	for node := range nodes {
		for i := range c.history.Faults {
			fault := &c.history.Faults[i]
			if fault.affects(node) && (fault.isCrash() || fault.Kind == Paused && !c.isTooBrief(i) || fault.isNetwork()) && fault.overlaps(since, resp.Done()) {
				failures[failure{node, fault.From}] = true
			}
		}
	}
	return len(failures)
}

// mayHaveRun reports whether the node declared in its error response that the request may
// have run.
func (r *Response) mayHaveRun() bool { return strings.Contains(r.Detail, "may have run") }

// timedOutWaiting reports whether the request failed because it had waited for the whole queue
// timeout: it waited and was rejected, or it is a safe request that waited for a retry.
func (c *checker) timedOutWaiting(resp *Response) bool {
	switch {
	case resp.Done()-resp.lastAttempt().Sent < c.rules.shortestByAnyClock(c.rules.QueueWait):
		return false
	case resp.Status == http.StatusServiceUnavailable:
		return resp.Error == "no-leader" || resp.Error == "queue-timeout" || resp.Error == "peer-unreachable" || resp.Error == "upstream-busy"
	}
	return resp.Status == http.StatusBadGateway && resp.Safe() && resp.mayHaveRun()
}

// excuseValidUntil returns the time until which a fault is an excuse for a failed request for a
// shard.
func (c *checker) excuseValidUntil(resp *Response, fault *Fault, shard uint32, atIngress bool) int64 {
	until := c.rules.effectsEnd(fault)
	if fault.Kind == Killed {
		until = min(until, neverIfZero(fault.ExitedBy)) // The connections of the process broke when it died.
		if c.timedOutWaiting(resp) {
			until = fault.end()
		}
	}
	if c.timedOutWaiting(resp) {
		until = addDuration(until, int64(c.rules.QueueWait)) // The request was sent before the fault ended.
	}
	if !atIngress {
		until = min(until, c.nextOwnerStart(fault, shard, resp.Done()))
	}
	return addDuration(until, int64(c.rules.SettleTime))
}

// isTooBrief reports whether a fault is a pause of a node, or a stall of the machine, that was
// shorter than a lease. Such a fault may delay requests, but must not make one fail. Several
// pauses count as one if less than a lease lies between them.
func (c *checker) isTooBrief(faultIndex int) bool { return !c.canCauseFailure[faultIndex] }

// classifyFaults sets canCauseFailure for all faults at once. A starved machine has thousands of
// faults, so they must not be compared in pairs.
func (c *checker) classifyFaults() {
	c.canCauseFailure = make([]bool, len(c.history.Faults))
	lease := int64(c.rules.Lease)
	var pauses []int
	for i := range c.history.Faults {
		if fault := &c.history.Faults[i]; fault.Kind == Paused || fault.Kind == Stalled {
			pauses = append(pauses, i)
		} else {
			c.canCauseFailure[i] = true
		}
	}
	slices.SortFunc(pauses, func(i, j int) int {
		a, b := &c.history.Faults[i], &c.history.Faults[j]
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Node, b.Node), cmp.Compare(a.From, b.From))
	})
	for start := 0; start < len(pauses); {
		first, end := &c.history.Faults[pauses[start]], start+1
		until := first.end()
		for ; end < len(pauses); end++ {
			fault := &c.history.Faults[pauses[end]]
			if fault.Kind != first.Kind || fault.Node != first.Node || fault.From >= addDuration(until, lease) {
				break
			}
			until = max(until, fault.end())
		}
		for _, i := range pauses[start:end] { // one pause, or several that count as one
			c.canCauseFailure[i] = until == never || until-first.From >= lease
		}
		start = end
	}
}

// shardOf returns the shard of a request. ok is false if the shard is not known.
func (c *checker) shardOf(resp *Response) (shard uint32, ok bool) {
	if c.rules.Shards > 0 {
		return shardOf(resp.Key, c.rules.Shards), true
	}
	for _, run := range c.runsByRequest[resp.ID] {
		return run.Shard, true
	}
	return 0, false
}
