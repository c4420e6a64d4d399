package leader

import (
	"maps"
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

const (
	// The time between two queries of a staged change is drain-timeout / queryFraction, but at
	// most maxQueryInterval. A query asks the owners of moving shards which of them are idle.
	queryFraction    = 20
	maxQueryInterval = 250 * time.Millisecond
	// answerTimeout is how long the leader waits for the responses of the owners.
	answerTimeout = 100 * time.Millisecond
	// maxAnswerAge is the age of a query above which its responses are ignored, because requests
	// may have begun since. Answers get old if another entry enters the log slowly, or if the
	// leader waits for further changes.
	maxAnswerAge = 2 * answerTimeout
	// blockedAfter is the age of an open round at which the leader asks the owners which
	// shards block it.
	blockedAfter = 50 * time.Millisecond
	// maxStages is the maximum number of stages: maps that move some shards of an owner and leave
	// it busy ones. The time between two stages doubles. A map that leaves the owner no busy shard
	// does not wait for that time. There are at most 2*maxStages of those: requests may begin while
	// such a map is proposed, and make another one necessary.
	maxStages = 10
)

// stagedMoves is the progress of planned moves: idle shards move first, and busy ones wait up
// to drain-timeout (docs/internals/protocol-moves.md, "Planned moves in stages"). A query asks
// all owners with busy shards which of their shards are idle.
type stagedMoves struct {
	// progress are the nodes with busy shards that will move to another node.
	progress map[shardmap.NodeID]*ownerProgress
	// querySentAt is when the open query was asked; negative means that none is open.
	querySentAt time.Duration
	nextQueryAt time.Duration // when the next query is due
	// awaitingAnswer are the owners that have not answered the open query.
	awaitingAnswer map[shardmap.NodeID]bool
	// unblockedEpoch is the last proposal for which unblockRound asked the owners.
	unblockedEpoch shardmap.Epoch
}

// ownerProgress is the progress of one owner. It begins when the leader first defers a move from
// the owner, and ends when no map takes shards from the owner anymore. If the only possible target
// fails, the progress ends, and the time starts again when a target returns. Running requests are
// not aborted for a move to a node that may fail again.
type ownerProgress struct {
	startedAt time.Duration
	// timedOut is set if drain-timeout has passed since startedAt, so busy shards also move.
	timedOut       bool
	queries        int           // number of queries sent to it
	proposals      int           // number of proposals that move shards away from it
	nextProposalAt time.Duration // earliest time of the next proposal that leaves it busy shards
	// reason is the reason of the change, as metrics spell it.
	reason string
}

func newStagedMoves() stagedMoves {
	return stagedMoves{progress: map[shardmap.NodeID]*ownerProgress{}, querySentAt: -1}
}

// queryInterval returns the time between two queries.
func queryInterval(pace ack.Pace) time.Duration {
	return min(pace.DrainTimeout/queryFraction, maxQueryInterval)
}

// begin begins the progress of an owner, and makes a query due.
func (sm *stagedMoves) begin(now time.Duration, owner shardmap.NodeID, reason string) {
	sm.progress[owner] = &ownerProgress{startedAt: now, reason: reason}
	sm.nextQueryAt = now
}

// hasTimedOut reports whether the busy shards of the owner must move now.
func (sm *stagedMoves) hasTimedOut(owner shardmap.NodeID) bool {
	progress := sm.progress[owner]
	return progress != nil && progress.timedOut
}

// isQueryOpen reports whether the owners have been asked, and their answers are not used yet.
func (sm *stagedMoves) isQueryOpen() bool { return sm.querySentAt >= 0 }

// beginQuery opens a query to the owners, and returns the messages that ask it.
func (sm *stagedMoves) beginQuery(now time.Duration, owners map[shardmap.NodeID]bool) []IdleShardsQuery {
	sm.querySentAt, sm.awaitingAnswer = now, maps.Clone(owners)
	var messages []IdleShardsQuery
	for _, id := range slices.Sorted(maps.Keys(owners)) {
		progress := sm.progress[id]
		messages = append(messages, IdleShardsQuery{Node: id, QueryNumber: progress.queries})
		progress.queries++
	}
	return messages
}

// queryBlockingShards asks an owner which of its shards block the open round.
func (sm *stagedMoves) queryBlockingShards(now time.Duration, owner shardmap.NodeID) IdleShardsQuery {
	sm.querySentAt = now
	setKey(&sm.awaitingAnswer, owner, true)
	return IdleShardsQuery{Node: owner, QueryNumber: sm.progress[owner].queries, OpenRound: true}
}

// cancelQuery discards the open query, because the map that it refers to is no longer
// committed or a round has opened.
func (sm *stagedMoves) cancelQuery() { sm.querySentAt, sm.awaitingAnswer = -1, nil }

// cancelUnusedQuery discards a query whose answers are too old to be used. It reports
// whether there was one.
func (sm *stagedMoves) cancelUnusedQuery(now time.Duration) bool {
	if !sm.isQueryOpen() || now-sm.querySentAt <= maxAnswerAge {
		return false
	}
	for id := range sm.awaitingAnswer {
		sm.progress[id].queries--
	}
	sm.cancelQuery()
	sm.nextQueryAt = now
	return true
}

// endWait stops waiting for the owners that have not answered in time. It returns those that did
// not answer their first query. All their shards count as idle, so the shards of a node that
// never answers move without stages.
func (sm *stagedMoves) endWait() (unresponsive []shardmap.NodeID) {
	for id := range sm.awaitingAnswer {
		if progress := sm.progress[id]; progress != nil && progress.queries <= 1 {
			unresponsive = append(unresponsive, id)
		}
	}
	sm.awaitingAnswer = nil
	return unresponsive
}

// finishQuery closes a query whose answers the leader uses now.
func (sm *stagedMoves) finishQuery(in inputs) {
	sm.querySentAt, sm.nextQueryAt = -1, in.now+queryInterval(in.pace)
}

// drainsStarted stops waiting for the responses of nodes that drain gradually. Such a node reports
// its idle shards without a query.
func (sm *stagedMoves) drainsStarted(policy *ack.Policy) {
	maps.DeleteFunc(sm.awaitingAnswer, func(id shardmap.NodeID, _ bool) bool { return policy.DrainsGradually(id) })
}

// mayUseAnswer records that an owner has answered, and reports whether the next proposal may use
// the response. Proposals for one owner are spaced in time, except the one that leaves it no busy
// shard. leavesBusyShard is set if a proposal by this response leaves it busy shards.
func (sm *stagedMoves) mayUseAnswer(now time.Duration, owner shardmap.NodeID, leavesBusyShard bool) bool {
	progress := sm.progress[owner]
	delete(sm.awaitingAnswer, owner)
	if progress == nil || progress.proposals >= 2*maxStages {
		return false
	}
	if !leavesBusyShard || progress.proposals == 0 {
		return true
	}
	return progress.proposals < maxStages && now >= progress.nextProposalAt
}

// countProposal counts a proposal for the owners that lose shards by it. Each proposal doubles the
// time until the next one.
func (sm *stagedMoves) countProposal(in inputs, losingOwners []shardmap.NodeID) {
	for _, id := range losingOwners {
		if progress := sm.progress[id]; progress != nil {
			wait := queryInterval(in.pace) << min(progress.proposals, maxStages)
			progress.nextProposalAt = in.now + wait
			progress.proposals++
		}
	}
	sm.cancelQuery()
}

// update removes owners that no longer lose shards, and marks owners whose drain-timeout is over.
func (sm *stagedMoves) update(in inputs, losingOwners []shardmap.NodeID) {
	for id := range sm.progress {
		if !slices.Contains(losingOwners, id) {
			delete(sm.progress, id)
			delete(sm.awaitingAnswer, id)
		}
	}
	if len(sm.progress) == 0 {
		sm.cancelQuery()
	}
	for _, progress := range sm.progress {
		progress.timedOut = in.now-progress.startedAt >= in.pace.DrainTimeout
	}
}

// reason returns the reason of a staged change of which a map has been proposed; empty if there is
// none.
func (sm *stagedMoves) reason() string {
	for _, id := range slices.Sorted(maps.Keys(sm.progress)) {
		if progress := sm.progress[id]; progress.proposals > 0 {
			return progress.reason
		}
	}
	return ""
}

// excuseStall excludes a stall of the leader from the age of the open query; see
// Leader.excuseStall. A query causes no heartbeat, so one heartbeat interval is also excused.
func (sm *stagedMoves) excuseStall(in inputs, stall time.Duration) {
	if sm.isQueryOpen() {
		sm.querySentAt = min(sm.querySentAt+stall+in.pace.Heartbeat, in.now)
	}
}
