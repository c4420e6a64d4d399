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

// failureExcuses determines the excuses of failed requests.
type failureExcuses struct {
	rules    *Rules
	runs     *runIndex
	maps     mapTimeline
	owners   *shardOwners
	faults   *faultTimeline
	majority *majority
	// ingressNodes contains the node that received the last attempt of each request, by request ID.
	ingressNodes map[string]string
}

// reason returns the excuse of a failed request, or an empty string if it has none. If an
// excuse existed but ended before the failure, expiredAt is when it ended. Otherwise expiredAt is
// zero.
//
// A failed request has an excuse only in two cases: its ingress node or an owner of its shard had
// a fault while the request was in flight, or so many nodes had faults that no majority was left.
// Each excuse ends Rules.SettleTime after the request should work again:
//   - when another owner serves the shard, if the owner had the fault
//   - when the fault of the ingress node ends
//
// One excuse needs no fault: a run that lasted DrainTimeout may be aborted when its shard
// moves.
func (fe *failureExcuses) reason(resp *Response) (reason string, expiredAt int64) {
	if len(resp.Attempts) == 0 {
		return "", 0
	}
	if resp.Status == 0 {
		return fe.noResponseReason(resp), 0
	}
	if reason := cmp.Or(fe.drainTimeoutReason(resp), fe.expiredLeaseReason(resp), fe.notHeldReason(resp)); reason != "" {
		return reason, 0
	}
	shard, ok := fe.runs.requestShard(resp)
	if !ok {
		return "", 0
	}
	timedOut := fe.timedOutWaiting(resp)
	if resp.Status == http.StatusServiceUnavailable && !timedOut {
		return "", 0 // No fault is an excuse for other refusals, such as a full queue.
	}
	request := failedRequest{
		Response: resp, shard: shard, ingress: fe.ingressNodes[resp.ID], owners: fe.owners.ownersDuring(shard, resp.SentAt(), resp.DoneAt()),
		timedOut: timedOut, noMajority: fe.lackedMajority(resp, timedOut),
	}
	return fe.excuseByFaults(&request)
}

// excuseByFaults returns the first excuse for a failed request among the faults. If all excuses ended
// before the failure, reason is empty, and expiredAt is when the last one ended.
func (fe *failureExcuses) excuseByFaults(request *failedRequest) (reason string, expiredAt int64) {
	for i := range fe.faults.all {
		reason, validUntil := fe.excuseByFault(request, i)
		faultEnd := fe.faults.all[i].end()
		waitedAfterFault := request.timedOut && request.lastAttempt().Sent > faultEnd
		switch {
		case reason == "":
			continue
		case request.DoneAt() > validUntil:
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
func (fe *failureExcuses) lackedMajority(resp *Response, timedOut bool) bool {
	minDuration := fe.rules.DeadAfter / 2
	if timedOut {
		minDuration = fe.rules.QueueWait / 2
	}
	return fe.majority.longestWithout(resp) > fe.rules.shortestByAnyClock(minDuration)
}

// excuseByFault returns why one fault excuses the failure of a request, and until when. reason is
// empty if the fault is no excuse.
func (fe *failureExcuses) excuseByFault(request *failedRequest, faultIndex int) (reason string, validUntil int64) {
	fault := &fe.faults.all[faultIndex]
	if request.DoneAt() < fault.From || fe.faults.isTooBrief(faultIndex) {
		return "", 0
	}
	atIngress, atOwner := fault.affects(request.ingress), fault.affectsAny(request.owners)
	if !atIngress && !atOwner && !request.noMajority {
		return "", 0
	}
	if fault.Kind == Terminated && !fe.terminationExcuses(request, fault, atOwner) {
		return "", 0
	}
	// Without a majority, a fault of any node has the effects of a fault of the ingress node.
	atIngress = atIngress || request.noMajority
	reason = fe.failureMode(request, fault, atIngress, atOwner)
	if reason == "" {
		return "", 0
	}
	return reason, fe.excuseValidUntil(request, fault, atIngress)
}

// terminationExcuses reports whether a SIGTERM excuses a failed request. The cluster must handle a
// planned exit without a failed request, with two exceptions: there is no majority, or the grace
// period of the terminated owner was restarted and lasted longer than the queue timeout.
func (fe *failureExcuses) terminationExcuses(request *failedRequest, fault *Fault, atOwner bool) bool {
	if request.noMajority {
		return true
	}
	return atOwner && request.timedOut && fe.faults.graceRestarted(request.Response, fault)
}

// abortedByFaulty reports whether a node with this fault aborted a run of the request. An
// excluded node gets no lease before it has drained its shards. So it aborts requests of
// reassigned shards 0.85 * DeadAfter after its last lease, even if the fault has ended by
// then.
func (fe *failureExcuses) abortedByFaulty(resp *Response, fault *Fault) bool {
	return slices.ContainsFunc(fe.runs.byRequest[resp.ID], func(run Run) bool { return run.Aborted && fault.affects(run.App) })
}

// noResponseReason returns the excuse for a request without any response: its ingress process
// died, or no process listened and the client tries only once.
func (fe *failureExcuses) noResponseReason(resp *Response) string {
	last := resp.lastAttempt()
	node := fe.rules.node(last.Target)
	switch {
	case !last.Refused && fe.faults.diedDuring(node, &last):
		return "no response, the ingress node died"
	case last.Refused && len(resp.Attempts) == 1 && fe.faults.mayBeDown(node, &last):
		return "no process listened"
	}
	return ""
}

// drainTimeoutReason returns the excuse of a request that was aborted because its shard had to
// move.
func (fe *failureExcuses) drainTimeoutReason(resp *Response) string {
	if resp.Error != "shard-moved" && !resp.Truncated {
		return ""
	}
	for _, run := range fe.runs.byRequest[resp.ID] {
		end, aborted := run.end(), run.Aborted
		if !aborted && fe.responseReadLate(resp, run) {
			end, aborted = resp.DoneAt(), true
		}
		if aborted && end-run.Start >= fe.rules.shortestByAnyClock(fe.rules.DrainTimeout) {
			return "aborted after the drain timeout"
		}
	}
	return ""
}

// responseReadLate reports whether the node of a run was paused when its app responded, and
// continued just before the request failed. After a pause, a node first aborts requests that
// have exceeded their drain timeout, and only then reads responses.
func (fe *failureExcuses) responseReadLate(resp *Response, run Run) bool {
	continuedAt := fe.faults.pausedUntil(run.App, run.end())
	if continuedAt == 0 {
		return false
	}
	return continuedAt <= resp.DoneAt() && resp.DoneAt() <= addDuration(continuedAt, int64(fe.rules.MaxAbortNotice))
}

// expiredLeaseReason returns the excuse of a request that was aborted because its node had
// no lease for too long: 0.85 * DeadAfter after the node last held a lease, less the
// lease. A fault of a single node cannot end the lease of another node for that long.
func (fe *failureExcuses) expiredLeaseReason(resp *Response) string {
	if resp.Status != http.StatusBadGateway || !resp.mayHaveRun() || resp.Safe() {
		return ""
	}
	minDuration := fe.rules.shortestByAnyClock(fe.rules.DeadAfter*17/20 - fe.rules.Lease)
	for _, run := range fe.runs.byRequest[resp.ID] {
		if !run.Aborted {
			continue
		}
		lastLeased, ok := fe.runs.lastLease(run.App, run.end())
		leaseWasMissing := ok && run.end()-lastLeased >= minDuration
		failedAfterAbort := resp.DoneAt() <= addDuration(run.end(), int64(fe.rules.SettleTime))
		if leaseWasMissing && failedAfterAbort && fe.faults.affectSeveralNodes(lastLeased, run.end()) {
			return "aborted, the lease of its node had ended"
		}
	}
	return ""
}

// notHeldReason returns the excuse of a request for a shard that a restarted app did not
// hold, if the body was too large for the node to buffer. Before such a request the node
// cannot know that the app has lost its shards. The excuse ends for a shard after its
// first run on that node since the restart.
func (fe *failureExcuses) notHeldReason(resp *Response) string {
	appLacksShard := resp.Error == string(problem.UpstreamBroken) && strings.Contains(resp.Detail, problem.UnheldInPart)
	hasRun := len(fe.runs.byRequest[resp.ID]) > 0
	shard, ok := fe.runs.requestShard(resp)
	if !ok || !appLacksShard || hasRun {
		return ""
	}
	owners := fe.owners.ownersDuring(shard, resp.lastAttempt().Sent, resp.DoneAt())
	for node, restartedAt := range fe.faults.lastAppRestarts(owners, resp.DoneAt()) {
		if !fe.acquiredSince(node, shard, restartedAt, resp.DoneAt()) {
			return "the restarted app did not hold its shard"
		}
	}
	return ""
}

// acquiredSince reports whether the app of a node has certainly acquired a shard between its restart
// and the time at: it ran a request of that shard, and the run ended SettleTime before at.
func (fe *failureExcuses) acquiredSince(node string, shard uint32, restartedAt, at int64) bool {
	return slices.ContainsFunc(fe.runs.byShard[shard], func(run Run) bool {
		return run.App == node && run.Start >= restartedAt && addDuration(run.end(), int64(fe.rules.SettleTime)) < at
	})
}

// failureMode returns the way in which a fault made a request fail, or an empty string if the fault
// cannot explain the failure. atIngress reports a fault of the ingress node, and atOwner a fault of
// an owner.
func (fe *failureExcuses) failureMode(request *failedRequest, fault *Fault, atIngress, atOwner bool) string {
	switch {
	case request.Status == http.StatusOK && request.Truncated:
		brokeClientConn := atIngress && fault.Kind != AppDown
		if brokeClientConn || fault.affects(request.App) {
			return "truncated, " + fault.Kind.String()
		}
		return ""
	case request.Error == "":
		return "" // The error comes from the app. checkResponse has checked whether the app fenced the request correctly.
	case request.timedOut && fe.explainsQueueTimeout(request, fault, atIngress, atOwner):
		return "timed out in the queue: " + request.Error
	case request.Status == http.StatusBadGateway && request.mayHaveRun() && !fe.mayBeSentAgain(request.Response):
		return "may have run: " + request.Error
	case explainsError(request.Response, fault):
		return request.Error
	}
	return ""
}

// explainsQueueTimeout reports whether a fault explains that a request waited in the queue until its
// timeout. The error peer-unreachable requires a node that did not respond for that long. For all other
// errors, each fault that reaches this check is an explanation.
func (fe *failureExcuses) explainsQueueTimeout(request *failedRequest, fault *Fault, atIngress, atOwner bool) bool {
	if request.Error != "peer-unreachable" || request.Status == http.StatusBadGateway || request.noMajority {
		return true
	}
	if fault.isNetwork() || atOwner && fe.takeoverDelayed(request.Response, fault) {
		return true
	}
	ingressPaused := fault.Kind == Paused && fe.activeAtDeadline(request.Response, fault)
	return atIngress && (ingressPaused || fe.missedTakeover(request.Response, fault))
}

// takeoverDelayed reports whether a faulty owner did not respond, and a second faulty node may have
// delayed the takeover of its shards.
func (fe *failureExcuses) takeoverDelayed(resp *Response, fault *Fault) bool {
	isSilent := fault.Kind == Paused || fault.isCrash()
	return isSilent && fe.faults.affectSeveralNodes(resp.lastAttempt().Sent, resp.DoneAt())
}

// mayBeSentAgain reports whether the ingress node must send a request again after its connection broke.
// It never sends an unsafe request again. A safe request may fail after maxSends, or after it was
// aborted by the failures of two processes.
func (fe *failureExcuses) mayBeSentAgain(resp *Response) bool {
	if !resp.Safe() {
		return false
	}
	sends := len(fe.runs.byRequest[resp.ID]) + fe.countLostSends(resp)
	return sends < maxSends && fe.countOwnerFailures(resp) <= 1
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
func (fe *failureExcuses) queueDeadline(resp *Response) int64 {
	return addDuration(resp.lastAttempt().Sent, fe.rules.shortestByAnyClock(fe.rules.QueueWait))
}

// activeAtDeadline reports whether the fault was active when the queue timeout of the
// request expired.
func (fe *failureExcuses) activeAtDeadline(resp *Response, fault *Fault) bool {
	deadline := fe.queueDeadline(resp)
	return fault.overlaps(deadline, deadline)
}

// missedTakeover reports whether the ingress node waited for a dead owner, because its own
// copy of the log was delayed at the time of the queue timeout. A node gets the new owner of
// a shard only from its own copy of the log.
func (fe *failureExcuses) missedTakeover(resp *Response, fault *Fault) bool {
	delaysLog := fault.Kind == DiskFault || fault.Kind == LogDelayed
	if !delaysLog || fault.Node != fe.ingressNodes[resp.ID] || !fe.activeAtDeadline(resp, fault) {
		return false
	}
	shard, _ := fe.runs.requestShard(resp)
	for i := 1; i < len(fe.maps); i++ {
		old, next := &fe.maps[i-1], &fe.maps[i]
		if int(shard) >= min(len(old.Owners), len(next.Owners)) {
			continue
		}
		previousOwner := old.Owners[shard]
		isTakeover := next.Owners[shard] != previousOwner
		committedSinceFault := fault.From <= next.At && next.At <= resp.DoneAt()
		if isTakeover && committedSinceFault && previousOwner != fault.Node && fe.faults.isDownAt(previousOwner, fe.queueDeadline(resp)) {
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
func (fe *failureExcuses) countLostSends(resp *Response) int {
	lossStarts := make(map[int64]bool)
	sendsAfterDeath := 0
	for i := range fe.faults.all {
		fault := &fe.faults.all[i]
		if fault.isNetwork() && fault.overlaps(resp.SentAt(), resp.DoneAt()) && fe.involvesFaulty(resp, fault) {
			lossStarts[fault.From] = true
		}
		if fe.diedDuringRun(resp, fault) {
			sendsAfterDeath = 1 // The proxy sends over at most two idle connections, and the run was the first.
		}
	}
	sendsLostInTransit := max(len(lossStarts)-1, 0)
	return sendsLostInTransit + sendsAfterDeath
}

// involvesFaulty reports whether a fault affects the ingress node of a request, or a node that ran it.
func (fe *failureExcuses) involvesFaulty(resp *Response, fault *Fault) bool {
	return fault.affects(fe.ingressNodes[resp.ID]) ||
		slices.ContainsFunc(fe.runs.byRequest[resp.ID], func(run Run) bool { return fault.affects(run.App) })
}

// diedDuringRun reports whether a fault killed a node, and so aborted a run of the request.
func (fe *failureExcuses) diedDuringRun(resp *Response, fault *Fault) bool {
	if !fault.isCrash() {
		return false
	}
	noticedBy := addDuration(fault.LatestExit, int64(fe.rules.MaxAbortNotice))
	return slices.ContainsFunc(fe.runs.byRequest[resp.ID], func(run Run) bool {
		return run.Aborted && run.App == fault.Node && fault.From <= run.end() && run.end() <= noticedBy
	})
}

// countOwnerFailures returns at how many processes a request may have been aborted. A
// request that was in flight at two failed processes is not sent to a third, since the
// request may be the cause. Each death, pause or disconnection of a node that owned its
// shard, or ran it, counts. Failures shortly before the request also count, since an idle
// connection reports a failure only when it is used.
func (fe *failureExcuses) countOwnerFailures(resp *Response) int {
	type failure struct {
		node string
		from int64
	}
	failures := make(map[failure]bool)
	shard, _ := fe.runs.requestShard(resp)
	nodes := fe.owners.ownersDuring(shard, resp.SentAt(), resp.DoneAt())
	for _, run := range fe.runs.byRequest[resp.ID] {
		nodes[run.App] = true
	}
	since := resp.SentAt() - int64(fe.rules.SettleTime)
	for i := range fe.faults.all {
		fault := &fe.faults.all[i]
		isLongPause := fault.Kind == Paused && !fe.faults.isTooBrief(i)
		breaksConnections := isLongPause || fault.isCrash() || fault.isNetwork()
		if !breaksConnections || !fault.overlaps(since, resp.DoneAt()) {
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
func (fe *failureExcuses) timedOutWaiting(resp *Response) bool {
	waited := resp.DoneAt() - resp.lastAttempt().Sent
	if waited < fe.rules.shortestByAnyClock(fe.rules.QueueWait) {
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
func (fe *failureExcuses) excuseValidUntil(request *failedRequest, fault *Fault, atIngress bool) int64 {
	until := fe.rules.effectsEnd(fault)
	switch {
	case fault.Kind == Killed && request.timedOut:
		until = fault.end()
	case fault.Kind == Killed:
		until = min(until, orNever(fault.LatestExit)) // The connections of the process broke when it died.
	}
	if request.timedOut {
		until = addDuration(until, int64(fe.rules.QueueWait)) // The request was sent before the fault ended.
	}
	if !atIngress {
		until = min(until, fe.owners.nextOwnerStart(fault, request.shard, request.DoneAt()))
	}
	until = addDuration(until, int64(fe.rules.SettleTime))
	if request.noMajority && fault.Kind == Killed { // Without a majority, running requests are aborted only DeadAfter later.
		until = max(until, addDuration(fault.From, int64(fe.rules.DeadAfter+fe.rules.SettleTime)))
	}
	if fe.abortedByFaulty(request.Response, fault) { // The node has no lease since the fault, and aborts its requests DeadAfter later.
		until = max(until, addDuration(fault.end(), int64(fe.rules.DeadAfter)))
	}
	return until
}
