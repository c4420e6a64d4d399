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
	// Sent is the start of the connection, LastEvent the arrival of its last event, and Done its
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

// checkFollowers checks that each follower received all events of its stream, in order and without
// repetition, also after the end of a connection. Then a node continues the stream with the next
// upstream connection, or the client continues it at the next node.
func (c *checker) checkFollowers() {
	for i := range c.history.Followers {
		follower := &c.history.Followers[i]
		lastEvent := follower.After
		for connIndex := range follower.Conns {
			conn := &follower.Conns[connIndex]
			for _, event := range conn.Events {
				switch {
				case event.ID <= lastEvent:
					c.report.addViolation(RepeatedEvent, "%s: event %d of %s came after event %d, from %s", follower.Name, event.ID, follower.Key, lastEvent, conn.Target)
				case event.ID > lastEvent+1:
					c.report.addViolation(MissingEvent, "%s: event %d of %s came after event %d, from %s", follower.Name, event.ID, follower.Key, lastEvent, conn.Target)
				case event.Text != EventText(follower.Key, event.ID):
					c.report.addViolation(WrongEvent, "%s: event %d of %s has the text %q, from %s", follower.Name, event.ID, follower.Key, event.Text, conn.Target)
				}
				lastEvent = event.ID
			}
			c.report.Events += len(conn.Events)
			if conn.Done != 0 {
				c.checkFollow(follower, conn)
			}
		}
	}
}

// checkFollow checks the end of a connection. The apps never end a stream. If a response ends
// properly, a node has ended it, and the client does not notice that events are missing.
func (c *checker) checkFollow(follower *Follower, conn *FollowConn) {
	resp := conn.response(follower)
	switch {
	case conn.Refused:
		if !c.mayBeDown(c.rules.node(conn.Target), &resp.Attempts[0]) {
			c.report.addViolation(NotListening, "%s: no process listened at %s, which should have been running", follower.Name, conn.Target)
		}
		return
	case conn.Status != 200:
		c.checkResponse(&resp)
		return
	case conn.Ended:
		c.report.addViolation(BrokenStream, "%s: the stream of %s from %s ended properly, but its app had not ended it", follower.Name, follower.Key, conn.Target)
		return
	}
	reason, expiredAt := c.brokenReason(follower, conn)
	if reason != "" {
		c.report.ExcusedFailures["broken stream, "+reason]++
		return
	}
	text := fmt.Sprintf("%s: the stream of %s from %s was broken: %s", follower.Name, follower.Key, conn.Target, conn.Err)
	if expiredAt != 0 {
		text += fmt.Sprintf(", %v after it should have resumed", time.Duration(conn.Done-expiredAt))
	}
	c.report.addViolation(BrokenStream, "%s; its last event was %v before that, its start %v%s", text, time.Duration(conn.Done-conn.lastActivity()), time.Duration(conn.Done-conn.Sent), c.describeContext(&resp, c.runsByRequest[conn.ID]))
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
func (c *checker) brokenReason(follower *Follower, conn *FollowConn) (reason string, expiredAt int64) {
	resp, ingress := conn.response(follower), c.rules.node(conn.Target)
	shard, _ := c.shardOf(&resp)
	owners := c.owners(shard, conn.lastActivity(), conn.Done)
	switch {
	case follower.BoundToNode:
		return "its app is part of its node", 0
	case conn.LastEvent == 0 && len(owners) > 1:
		return "it had no event ID yet", 0
	}
	noMajority := c.longestWithoutMajority(&resp) > c.rules.shortestByAnyClock(c.rules.DeadAfter/2)
	for i := range c.history.Faults {
		fault := &c.history.Faults[i]
		atIngress, atOwner := fault.affects(ingress), false
		for node := range owners {
			atOwner = atOwner || fault.affects(node)
		}
		if conn.Done < fault.From {
			continue
		}
		var until int64
		switch {
		case fault.Kind == Terminated:
			if !atIngress {
				continue
			}
			until = fault.end()
		case fault.Kind == Stalled && atIngress && owners[ingress] && fault.overlaps(conn.lastActivity(), conn.Done):
			until = never // The client may not have read during the stall.
		case c.isTooBrief(i) || !atIngress && !atOwner && !noMajority, atIngress && !atOwner && !noMajority && fault.Kind == AppDown:
			continue
		default:
			until = c.streamExcuseValidUntil(fault, conn, shard, atIngress || noMajority)
		}
		if until = addDuration(until, int64(c.rules.SettleTime)); conn.Done <= until {
			return fault.Kind.String(), 0
		}
		expiredAt = max(expiredAt, until)
	}
	return "", expiredAt
}

// streamExcuseValidUntil returns the time until which a fault is an excuse for a broken stream. Like
// a request, a stream without an upstream connection waits up to the queue timeout for the next one.
func (c *checker) streamExcuseValidUntil(fault *Fault, conn *FollowConn, shard uint32, atIngress bool) int64 {
	until := c.rules.effectsEnd(fault)
	if !atIngress {
		until = min(until, c.nextOwnerStart(fault, shard, conn.Done))
	}
	if conn.Done-conn.lastActivity() >= c.rules.shortestByAnyClock(c.rules.QueueWait) {
		until = addDuration(until, int64(c.rules.QueueWait))
	}
	return until
}
