package history

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Follower is a client that reads the event stream of a key over successive connections. It
// reconnects automatically, and sends the ID of the last event that it received.
type Follower struct {
	Name, Key string
	// After is the ID of the last event before the recorded connections. Zero means that there was
	// none.
	After uint64
	// BoundToNode reports that its streams cannot continue on another node, because the app
	// runs in the process of its node. Each shard move may end them.
	BoundToNode bool
	// Conns are its connections in order, or the parts of them that were not checked
	// before.
	Conns []FollowConn
}

// FollowConn is one connection of a Follower.
type FollowConn struct {
	// ID is the ID of the request. All upstream connections of the stream carry it.
	ID, Target string
	// SentAt is the start of the connection, LastEvent the arrival of its last event, and Done its
	// end: values of Now. Zero means that no event arrived, or that the connection is open.
	Sent, LastEvent, Done int64
	// Refused reports whether the connection was refused because no process listened.
	Refused bool
	// Status is 0 without a response. Error and Detail are as in Response.
	Status        int
	Error, Detail string
	Events        []Event
	// Ended reports whether the response ended properly. Otherwise Err contains the error that
	// ended it.
	Ended bool
	Err   string
}

// Event is one complete event.
type Event struct {
	ID   uint64
	Text string
}

// EventText returns the text of the n-th event of a key. Any app can compute it without the previous
// event. The lengths differ, so that connections break at varying positions within an event.
func EventText(key string, n uint64) string {
	return fmt.Sprintf("%s %d %s", key, n, strings.Repeat("x", int(n*37%300)))
}

// streamChecker checks the event streams of followers.
type streamChecker struct {
	rules     *Rules
	report    *Report
	runs      *runIndex
	owners    *shardOwners
	faults    *faultTimeline
	majority  *majority
	responses *responseChecker
}

// check checks that each follower received all events of its stream, in order and without
// repetition, also after the end of a connection. Then a node continues the stream with the next
// upstream connection, or the client continues it at the next node.
func (sc *streamChecker) check(followers []Follower) {
	for i := range followers {
		follower := &followers[i]
		lastEvent := follower.After
		for connIndex := range follower.Conns {
			conn := &follower.Conns[connIndex]
			lastEvent = sc.checkEvents(follower, conn, lastEvent)
			if conn.Done != 0 {
				sc.checkStreamEnd(follower, conn)
			}
		}
	}
}

// checkEvents checks the events of one connection. lastEvent is the ID of the last event before. The
// result is the ID of the last event of the connection.
func (sc *streamChecker) checkEvents(follower *Follower, conn *FollowConn, lastEvent uint64) uint64 {
	for _, event := range conn.Events {
		switch {
		case event.ID <= lastEvent:
			sc.report.addViolation(RepeatedEvent, "%s: event %d of %s came after event %d, from %s", follower.Name, event.ID, follower.Key, lastEvent, conn.Target)
		case event.ID > lastEvent+1:
			sc.report.addViolation(MissingEvent, "%s: event %d of %s came after event %d, from %s", follower.Name, event.ID, follower.Key, lastEvent, conn.Target)
		case event.Text != EventText(follower.Key, event.ID):
			sc.report.addViolation(WrongEvent, "%s: event %d of %s has the text %q, from %s", follower.Name, event.ID, follower.Key, event.Text, conn.Target)
		}
		lastEvent = event.ID
	}
	sc.report.Events += len(conn.Events)
	return lastEvent
}

// checkStreamEnd checks why a connection ended. The apps never end a stream. If a response ends
// properly, a node has ended it, and the client does not notice that events are missing.
func (sc *streamChecker) checkStreamEnd(follower *Follower, conn *FollowConn) {
	resp := conn.response(follower)
	switch {
	case conn.Refused:
		if !sc.faults.mayBeDown(sc.rules.node(conn.Target), &resp.Attempts[0]) {
			sc.report.addViolation(NotListening, "%s: no process listened at %s, which should have been running", follower.Name, conn.Target)
		}
	case conn.Status != 200:
		sc.responses.checkResponse(&resp)
	case conn.Ended:
		sc.report.addViolation(BrokenStream, "%s: the stream of %s from %s ended properly, but its app had not ended it", follower.Name, follower.Key, conn.Target)
	default:
		sc.checkBrokenStream(follower, conn, &resp)
	}
}

// checkBrokenStream reports a connection that broke during the response, unless the failure has an
// excuse. resp is the connection as a Response.
func (sc *streamChecker) checkBrokenStream(follower *Follower, conn *FollowConn, resp *Response) {
	reason, expiredAt := sc.brokenReason(follower, conn)
	if reason != "" {
		sc.report.ExcusedFailures["broken stream, "+reason]++
		return
	}
	text := fmt.Sprintf("%s: the stream of %s from %s was broken: %s", follower.Name, follower.Key, conn.Target, conn.Err)
	if expiredAt != 0 {
		text += fmt.Sprintf(", %v after it should have resumed", time.Duration(conn.Done-expiredAt))
	}
	sinceLastEvent, sinceStart := time.Duration(conn.Done-conn.lastActivity()), time.Duration(conn.Done-conn.Sent)
	sc.report.addViolation(BrokenStream, "%s; its last event was %v before that, its start %v%s", text, sinceLastEvent, sinceStart, sc.faults.describeContext(resp, sc.runs.byRequest[conn.ID]))
}

// lastActivity returns the last time at which the stream certainly worked.
func (f *FollowConn) lastActivity() int64 { return cmp.Or(f.LastEvent, f.Sent) }

// response returns the connection as a Response that covers only the time since the last
// event.
func (f *FollowConn) response(follower *Follower) Response {
	return Response{
		ID: f.ID, Key: follower.Key, Method: "GET", Status: f.Status, Error: f.Error, Detail: f.Detail, Truncated: f.Status == 200,
		Attempts: []Attempt{{Target: f.Target, Refused: f.Refused, Sent: f.lastActivity(), Done: f.Done, Err: f.Err}},
	}
}

// brokenReason returns the excuse for a broken stream, or an empty string if the stream had to
// continue. If an excuse existed but ended before the failure, expiredAt is when it ended. Otherwise
// expiredAt is zero. A planned move may break a stream only in these cases:
//   - Its ingress node terminates.
//   - The app has not sent an event ID yet.
//   - Its client does not read, and is connected to the node that loses the shard.
//
// A fault excuses the streams through that node and of its shards, until they must have
// resumed elsewhere.
func (sc *streamChecker) brokenReason(follower *Follower, conn *FollowConn) (reason string, expiredAt int64) {
	resp := conn.response(follower)
	shard, _ := sc.runs.requestShard(&resp)
	stream := brokenStream{
		FollowConn: conn, shard: shard, ingress: sc.rules.node(conn.Target), owners: sc.owners.ownersDuring(shard, conn.lastActivity(), conn.Done),
		noMajority: sc.majority.longestWithout(&resp) > sc.rules.shortestByAnyClock(sc.rules.DeadAfter/2),
	}
	switch {
	case follower.BoundToNode:
		return "its app is part of its node", 0
	case conn.LastEvent == 0 && len(stream.owners) > 1:
		return "it had no event ID yet", 0
	}
	for i := range sc.faults.all {
		validUntil, canExcuse := sc.streamExcuseByFault(&stream, i)
		if !canExcuse {
			continue
		}
		validUntil = addDuration(validUntil, int64(sc.rules.SettleTime))
		if conn.Done <= validUntil {
			return sc.faults.all[i].Kind.String(), 0
		}
		expiredAt = max(expiredAt, validUntil)
	}
	return "", expiredAt
}

// brokenStream is a connection that broke during the response, and what is known about its
// surroundings.
type brokenStream struct {
	*FollowConn

	shard   uint32
	ingress string
	// owners are the nodes that may have owned the shard since the last event.
	owners map[string]bool
	// noMajority reports that a lack of a majority may have broken the stream.
	noMajority bool
}

// streamExcuseByFault returns until when one fault excuses a broken stream. ok is false if the fault is
// no excuse.
func (sc *streamChecker) streamExcuseByFault(stream *brokenStream, faultIndex int) (validUntil int64, ok bool) {
	fault := &sc.faults.all[faultIndex]
	atIngress, atOwner := fault.affects(stream.ingress), fault.affectsAny(stream.owners)
	if stream.Done < fault.From {
		return 0, false
	}
	if fault.Kind == Terminated {
		return fault.end(), atIngress
	}
	isLocal := stream.owners[stream.ingress]
	if fault.Kind == Stalled && atIngress && isLocal && fault.overlaps(stream.lastActivity(), stream.Done) {
		return never, true // The client may not have read during the stall.
	}
	if sc.faults.isTooBrief(faultIndex) {
		return 0, false
	}
	if stream.noMajority {
		return sc.streamExcuseValidUntil(fault, stream, true), true
	}
	breaksIngress := atIngress && fault.Kind != AppDown // The stream does not need the app of the ingress node.
	if !breaksIngress && !atOwner {
		return 0, false
	}
	return sc.streamExcuseValidUntil(fault, stream, atIngress), true
}

// streamExcuseValidUntil returns the time until which a fault is an excuse for a broken stream. Like
// a request, a stream without an upstream connection waits up to the queue timeout for the next one.
// atIngress reports that the fault affects the ingress node.
func (sc *streamChecker) streamExcuseValidUntil(fault *Fault, stream *brokenStream, atIngress bool) int64 {
	until := sc.rules.effectsEnd(fault)
	if !atIngress {
		until = min(until, sc.owners.nextOwnerStart(fault, stream.shard, stream.Done))
	}
	if stream.Done-stream.lastActivity() >= sc.rules.shortestByAnyClock(sc.rules.QueueWait) {
		until = addDuration(until, int64(sc.rules.QueueWait))
	}
	return until
}
