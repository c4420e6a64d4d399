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
	return c.excuseByFaults(&request)
}

// excuseByFaults returns the first excuse for a failed request among the faults. If all excuses ended
// before the failure, reason is empty, and expiredAt is when the last one ended.
func (c *checker) excuseByFaults(request *failedRequest) (reason string, expiredAt int64) {
	for i := range c.history.Faults {
		reason, validUntil := c.excuseByFault(request, i)
		faultEnd := c.history.Faults[i].end()
		waitedAfterFault := request.timedOut && request.lastAttempt().Sent > faultEnd
		switch {
		case reason == "":
			continue
		case request.Done() > validUntil:
			expiredAt = max(expiredAt, validUntil)
		case waitedAfterFault:
			expiredAt = max(expiredAt, faultEnd)
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
	if request.Done() < fault.From || c.isTooBrief(faultIndex) {
		return "", 0
	}
	atIngress, atOwner := fault.affects(request.ingress), fault.affectsAny(request.owners)
	if !atIngress && !atOwner && !request.noMajority {
		return "", 0
	}
	if fault.Kind == Terminated && !c.terminationExcuses(request, fault, atOwner) {
		return "", 0
	}
	// Without a majority, a fault of any node has the effects of a fault of the ingress node.
	atIngress = atIngress || request.noMajority
	reason = c.failureMode(request, fault, atIngress, atOwner)
	if reason == "" {
		return "", 0
	}
	return reason, c.excuseValidUntil(request, fault, atIngress)
}

// terminationExcuses reports whether a SIGTERM excuses a failed request. The cluster must handle a
// planned exit without a failed request, with two exceptions: there is no majority, or the grace
// period of the terminated owner was restarted and lasted longer than the queue timeout.
func (c *checker) terminationExcuses(request *failedRequest, fault *Fault, atOwner bool) bool {
	if request.noMajority {
		return true
	}
	return atOwner && request.timedOut && c.graceRestarted(request.Response, fault)
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
// have exceeded their drain timeout, and only then reads responses.
func (c *checker) responseReadLate(resp *Response, run Run) bool {
	continuedAt := c.pausedUntil(run.App, run.end())
	if continuedAt == 0 {
		return false
	}
	return continuedAt <= resp.Done() && resp.Done() <= addDuration(continuedAt, int64(c.rules.MaxAbortNotice))
}

// pausedUntil returns the end of the pause of a node that includes the time at. Adjacent pauses count
// as one. 0 means that the node was not paused at that time.
func (c *checker) pausedUntil(node string, at int64) int64 {
	latestEnd := func(at int64) (end int64) {
		for i := range c.history.Faults {
			fault := &c.history.Faults[i]
			if fault.Kind == Paused && fault.Node == node && fault.overlaps(at, at) {
				end = max(end, fault.end())
			}
		}
		return end
	}
	until := latestEnd(at)
	for until > 0 {
		next := latestEnd(until)
		if next <= until {
			break
		}
		until = next
	}
	return until
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
		if !run.Aborted {
			continue
		}
		lastLeased, ok := c.lastLease(run.App, run.end())
		leaseWasMissing := ok && run.end()-lastLeased >= minDuration
		failedAfterAbort := resp.Done() <= addDuration(run.end(), int64(c.rules.SettleTime))
		if leaseWasMissing && failedAfterAbort && c.severalNodesFaulty(lastLeased, run.end()) {
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
	appLacksShard := resp.Error == string(problem.UpstreamBroken) && strings.Contains(resp.Detail, problem.UnheldInPart)
	hasRun := len(c.runsByRequest[resp.ID]) > 0
	shard, ok := c.shardOf(resp)
	if !ok || !appLacksShard || hasRun {
		return ""
	}
	owners := c.owners(shard, resp.lastAttempt().Sent, resp.Done())
	for node, restartedAt := range c.lastAppRestarts(owners, resp.Done()) {
		if !c.acquiredSince(node, shard, restartedAt, resp.Done()) {
			return "the restarted app did not hold its shard"
		}
	}
	return ""
}

// lastAppRestarts returns the time of the last restart of each app that exited up to a time. nodes are
// the nodes to consider. The result has no entry for an app that did not exit.
func (c *checker) lastAppRestarts(nodes map[string]bool, exitedBy int64) map[string]int64 {
	restartedAt := make(map[string]int64)
	for i := range c.history.Faults {
		fault := &c.history.Faults[i]
		appExited := fault.Kind == AppDown && fault.ExitedBy != 0 && fault.ExitedBy <= exitedBy
		if appExited && nodes[fault.Node] {
			// fault.end may be later than exitedBy, because the test may notice late that the new
			// process of the app responds.
			restartedAt[fault.Node] = max(restartedAt[fault.Node], fault.end())
		}
	}
	return restartedAt
}

// acquiredSince reports whether the app of a node has certainly acquired a shard between its restart
// and the time at: it ran a request of that shard, and the run ended SettleTime before at.
func (c *checker) acquiredSince(node string, shard uint32, restartedAt, at int64) bool {
	return slices.ContainsFunc(c.runsByShard[shard], func(run Run) bool {
		return run.App == node && run.Start >= restartedAt && addDuration(run.end(), int64(c.rules.SettleTime)) < at
	})
}

// severalNodesFaulty reports whether more than one node had a fault, or was terminated, in an
// interval. Each fault counts for Rules.SettleTime longer than it lasted. After a fault of a single
// node, the other nodes soon elect a leader, which takes over the shards of the faulty node. A second
// faulty node can delay that, because the election may need its vote.
func (c *checker) severalNodesFaulty(from, until int64) bool {
	nodes := make(map[string]bool)
	for i := range c.history.Faults {
		fault := &c.history.Faults[i]
		if c.isTooBrief(i) || !fault.overlapsExtended(from, until, c.rules.SettleTime) {
			continue
		}
		nodes[fault.Node] = true
		if fault.Peer != "" {
			nodes[fault.Peer] = true
		}
	}
	return len(nodes) > 1
}

// failureMode returns the way in which a fault made a request fail, or an empty string if the fault
// cannot explain the failure. atIngress reports a fault of the ingress node, and atOwner a fault of
// an owner.
func (c *checker) failureMode(request *failedRequest, fault *Fault, atIngress, atOwner bool) string {
	switch {
	case request.Status == http.StatusOK && request.Truncated:
		brokeClientConn := atIngress && fault.Kind != AppDown
		if brokeClientConn || fault.affects(request.App) {
			return "truncated, " + fault.Kind.String()
		}
		return ""
	case request.Error == "":
		return "" // The error comes from the app. checkResponse has checked whether the app fenced the request correctly.
	case request.timedOut && c.explainsQueueTimeout(request, fault, atIngress, atOwner):
		return "timed out in the queue: " + request.Error
	case request.Status == http.StatusBadGateway && request.mayHaveRun() && !c.mayBeSentAgain(request.Response):
		return "may have run: " + request.Error
	case explainsError(request.Response, fault):
		return request.Error
	}
	return ""
}

// explainsQueueTimeout reports whether a fault explains that a request waited in the queue until its
// timeout. The error peer-unreachable requires a node that did not respond for that long. For all other
// errors, each fault that reaches this check is an explanation.
func (c *checker) explainsQueueTimeout(request *failedRequest, fault *Fault, atIngress, atOwner bool) bool {
	if request.Error != "peer-unreachable" || request.Status == http.StatusBadGateway || request.noMajority {
		return true
	}
	if fault.isNetwork() || atOwner && c.takeoverDelayed(request.Response, fault) {
		return true
	}
	ingressPaused := fault.Kind == Paused && c.activeAtDeadline(request.Response, fault)
	return atIngress && (ingressPaused || c.missedTakeover(request.Response, fault))
}

// takeoverDelayed reports whether a faulty owner did not respond, and a second faulty node may have
// delayed the takeover of its shards.
func (c *checker) takeoverDelayed(resp *Response, fault *Fault) bool {
	isSilent := fault.Kind == Paused || fault.isCrash()
	return isSilent && c.severalNodesFaulty(resp.lastAttempt().Sent, resp.Done())
}

// mayBeSentAgain reports whether the ingress node must send a request again after its connection broke.
// It never sends an unsafe request again. A safe request may fail after maxSends, or after it was
// aborted by the failures of two processes.
func (c *checker) mayBeSentAgain(resp *Response) bool {
	if !resp.Safe() {
		return false
	}
	sends := len(c.runsByRequest[resp.ID]) + c.countLostSends(resp)
	return sends < maxSends && c.countOwnerFailures(resp) <= 1
}

// explainsError reports whether the kind of a fault alone explains the error code of a response.
func explainsError(resp *Response, fault *Fault) bool {
	switch resp.Error {
	case "upstream-refused":
		return resp.Status == http.StatusBadGateway && fault.Kind == AppDown
	case "peer-unreachable":
		return resp.Status == http.StatusBadGateway && fault.isNetwork()
	case "upstream-connect-timeout":
		return fault.Kind == Paused // The paused node could not observe that the app accepted the connection.
	}
	return false
}

// queueDeadline returns the earliest time at which the queue timeout of a request can expire.
func (c *checker) queueDeadline(resp *Response) int64 {
	return addDuration(resp.lastAttempt().Sent, c.rules.shortestByAnyClock(c.rules.QueueWait))
}

// activeAtDeadline reports whether the fault was active when the queue timeout of the
// request expired.
func (c *checker) activeAtDeadline(resp *Response, fault *Fault) bool {
	deadline := c.queueDeadline(resp)
	return fault.overlaps(deadline, deadline)
}

// missedTakeover reports whether the ingress node waited for a dead owner, because its own
// copy of the log was delayed at the time of the queue timeout. A node gets the new owner of
// a shard only from its own copy of the log.
func (c *checker) missedTakeover(resp *Response, fault *Fault) bool {
	delaysLog := fault.Kind == DiskFault || fault.Kind == LogDelayed
	if !delaysLog || fault.Node != c.ingressNodes[resp.ID] || !c.activeAtDeadline(resp, fault) {
		return false
	}
	shard, _ := c.shardOf(resp)
	for i := 1; i < len(c.maps); i++ {
		old, next := &c.maps[i-1], &c.maps[i]
		if int(shard) >= min(len(old.Owners), len(next.Owners)) {
			continue
		}
		previousOwner := old.Owners[shard]
		isTakeover := next.Owners[shard] != previousOwner
		committedSinceFault := fault.From <= next.At && next.At <= resp.Done()
		if isTakeover && committedSinceFault && previousOwner != fault.Node && c.isDownAt(previousOwner, c.queueDeadline(resp)) {
			return true
		}
	}
	return false
}

// isDownAt reports whether the process of a node was dead, paused or terminated at a time.
func (c *checker) isDownAt(node string, at int64) bool {
	return slices.ContainsFunc(c.history.Faults, func(fault Fault) bool {
		isDown := fault.isCrash() || fault.Kind == Paused || fault.Kind == Terminated
		return isDown && fault.Node == node && fault.overlaps(at, at)
	})
}

// countLostSends returns how often a node may have sent a request that reached no app. Each of
// these sends counts towards maxSends:
//   - Packets between nodes were lost while the request was in flight. The first start of packet
//     loss aborts a run, and each later start may lose one send.
//   - A node died while it ran the request. The ingress node may then use one more idle connection
//     before it detects the death.
func (c *checker) countLostSends(resp *Response) int {
	lossStarts := make(map[int64]bool)
	sendsAfterDeath := 0
	for i := range c.history.Faults {
		fault := &c.history.Faults[i]
		if fault.isNetwork() && fault.overlaps(resp.Sent(), resp.Done()) && c.involvesFaulty(resp, fault) {
			lossStarts[fault.From] = true
		}
		if c.diedDuringRun(resp, fault) {
			sendsAfterDeath = 1 // The proxy sends over at most two idle connections, and the run was the first.
		}
	}
	sendsLostInTransit := max(len(lossStarts)-1, 0)
	return sendsLostInTransit + sendsAfterDeath
}

// involvesFaulty reports whether a fault affects the ingress node of a request, or a node that ran it.
func (c *checker) involvesFaulty(resp *Response, fault *Fault) bool {
	return fault.affects(c.ingressNodes[resp.ID]) ||
		slices.ContainsFunc(c.runsByRequest[resp.ID], func(run Run) bool { return fault.affects(run.App) })
}

// diedDuringRun reports whether a fault killed a node, and so aborted a run of the request.
func (c *checker) diedDuringRun(resp *Response, fault *Fault) bool {
	if !fault.isCrash() {
		return false
	}
	noticedBy := addDuration(fault.ExitedBy, int64(c.rules.MaxAbortNotice))
	return slices.ContainsFunc(c.runsByRequest[resp.ID], func(run Run) bool {
		return run.Aborted && run.App == fault.Node && fault.From <= run.end() && run.end() <= noticedBy
	})
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
	shard, _ := c.shardOf(resp)
	nodes := c.owners(shard, resp.Sent(), resp.Done())
	for _, run := range c.runsByRequest[resp.ID] {
		nodes[run.App] = true
	}
	since := resp.Sent() - int64(c.rules.SettleTime)
	for i := range c.history.Faults {
		fault := &c.history.Faults[i]
		isLongPause := fault.Kind == Paused && !c.isTooBrief(i)
		breaksConnections := isLongPause || fault.isCrash() || fault.isNetwork()
		if !breaksConnections || !fault.overlaps(since, resp.Done()) {
			continue
		}
		for node := range nodes {
			if fault.affects(node) {
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
	waited := resp.Done() - resp.lastAttempt().Sent
	if waited < c.rules.shortestByAnyClock(c.rules.QueueWait) {
		return false
	}
	switch resp.Status {
	case http.StatusServiceUnavailable:
		return slices.Contains([]string{"no-leader", "queue-timeout", "peer-unreachable", "upstream-busy"}, resp.Error)
	case http.StatusBadGateway:
		return resp.Safe() && resp.mayHaveRun()
	}
	return false
}

// excuseValidUntil returns the time until which a fault is an excuse for a failed request. atIngress
// reports that the fault affects the ingress node. The excuse then lasts until the end of the fault,
// and otherwise only until another owner serves the shard.
func (c *checker) excuseValidUntil(request *failedRequest, fault *Fault, atIngress bool) int64 {
	until := c.rules.effectsEnd(fault)
	switch {
	case fault.Kind == Killed && request.timedOut:
		until = fault.end()
	case fault.Kind == Killed:
		until = min(until, neverIfZero(fault.ExitedBy)) // The connections of the process broke when it died.
	}
	if request.timedOut {
		until = addDuration(until, int64(c.rules.QueueWait)) // The request was sent before the fault ended.
	}
	if !atIngress {
		until = min(until, c.nextOwnerStart(fault, request.shard, request.Done()))
	}
	until = addDuration(until, int64(c.rules.SettleTime))
	if request.noMajority && fault.Kind == Killed { // Without a majority, running requests are aborted only DeadAfter later.
		until = max(until, addDuration(fault.From, int64(c.rules.DeadAfter+c.rules.SettleTime)))
	}
	if c.abortedByFaulty(request.Response, fault) { // The node has no lease since the fault, and aborts its requests DeadAfter later.
		until = max(until, addDuration(fault.end(), int64(c.rules.DeadAfter)))
	}
	return until
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
