package history

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Follower is a client that follows the events of a key, over one connection after the
// other: it comes back by itself, and says which event it had last.
type Follower struct {
	Name, Key string
	// After is the last event that it had before these; 0: none.
	After uint64
	// Bound tells that its streams go on nowhere else, whatever the app says, because the
	// app is in the process of its node: each move may end them.
	Bound bool
	// Follows are its connections, or the parts of them that were not judged before, in
	// their order.
	Follows []Follow
}

// Follow is one connection of a Follower.
type Follow struct {
	// ID is that of the request, which all legs of the stream have.
	ID, Target string
	// Sent is when it began, Last when the last event came (0: none has), Done when it
	// ended (0: it is open).
	Sent, Last, Done int64
	// Refused tells that nobody listened.
	Refused bool
	// Status is 0 without an answer. Error and Detail are those of an Answer.
	Status        int
	Error, Detail string
	Events        []Event
	// Ended tells that the answer came to its proper end; else Err says what broke it.
	Ended bool
	Err   string
}

// Event is one that came whole.
type Event struct {
	ID   uint64
	Text string
}

// EventText is what the n-th event of a key says: any app knows, without having seen the
// one before. Lengths differ, so that cuts come anywhere.
func EventText(key string, n uint64) string {
	return fmt.Sprintf("%s %d %s", key, n, strings.Repeat("x", int(n*37%300)))
}

// followers judges what came to those who follow events. However a connection ended, the
// next event is the one behind the last: a further leg is asked for it by the node, and a
// further connection by the client.
func (j *judge) followers() {
	for i := range j.h.Followers {
		f := &j.h.Followers[i]
		last := f.After
		for k := range f.Follows {
			c := &f.Follows[k]
			for _, e := range c.Events {
				switch {
				case e.ID <= last:
					j.report.add(RepeatedEvent, "%s: event %d of %s came behind %d, by %s", f.Name, e.ID, f.Key, last, c.Target)
				case e.ID > last+1:
					j.report.add(MissingEvent, "%s: event %d of %s came behind %d, by %s", f.Name, e.ID, f.Key, last, c.Target)
				case e.Text != EventText(f.Key, e.ID):
					j.report.add(WrongEvent, "%s: event %d of %s says %q, by %s", f.Name, e.ID, f.Key, e.Text, c.Target)
				}
				last = e.ID
			}
			j.report.Events += len(c.Events)
			if c.Done != 0 {
				j.followed(f, c)
			}
		}
	}
}

// followed judges how a connection ended. No app ends a stream: if it comes to its proper
// end, somebody has made that up.
func (j *judge) followed(f *Follower, c *Follow) {
	a := c.answer(f)
	switch {
	case c.Refused:
		if !j.absent(j.rules.node(c.Target), &a.Attempts[0]) {
			j.report.add(Unlistened, "%s: nobody listened at %s, which had not ended", f.Name, c.Target)
		}
		return
	case c.Status != 200:
		j.answer(&a)
		return
	case c.Ended:
		j.report.add(CutStream, "%s: the stream of %s by %s came to an end that its app has not made", f.Name, f.Key, c.Target)
		return
	}
	why, late := j.cut(f, c)
	if why != "" {
		j.report.Excused["stream cut, "+why]++
		return
	}
	text := fmt.Sprintf("%s: the stream of %s by %s was cut: %s", f.Name, f.Key, c.Target, c.Err)
	if late != 0 {
		text += fmt.Sprintf(", %v after it had to go on again", time.Duration(c.Done-late))
	}
	j.report.add(CutStream, "%s; its last event was %v before, and its first moment %v%s", text, time.Duration(c.Done-c.seen()), time.Duration(c.Done-c.Sent), j.ran(&a, j.runs[c.ID]))
}

// seen is when the stream was last known to be well.
func (c *Follow) seen() int64 { return cmp.Or(c.Last, c.Sent) }

// answer is the connection as an Answer, of which only what came since the last event
// counts.
func (c *Follow) answer(f *Follower) Answer {
	return Answer{
		ID: c.ID, Key: f.Key, Method: "GET", Status: c.Status, Error: c.Error, Detail: c.Detail, Cut: c.Status == 200,
		Attempts: []Attempt{{Target: c.Target, Refused: c.Refused, Sent: c.seen(), Done: c.Done, Err: c.Err}},
	}
}

// cut is why a stream may have been cut; empty: it had to go on. late, if not zero, is
// until when it might have been cut. What moves by plan cuts none, but those of the node
// that ends, those that have shown no id yet, and at the node that its shard leaves that of
// a client which does not read. A fault excuses the streams that came by its node, and those
// of what that owned, until they must have gone on elsewhere.
func (j *judge) cut(f *Follower, c *Follow) (why string, late int64) {
	a, ingress := c.answer(f), j.rules.node(c.Target)
	shard, _ := j.shardOf(&a)
	owners := j.owners(shard, c.seen(), c.Done)
	switch {
	case f.Bound:
		return "its app is in its node", 0
	case c.Last == 0 && len(owners) > 1:
		return "it had shown no id", 0
	}
	apart := j.alone(&a) > j.rules.least(j.rules.DeadAfter/2)
	for i := range j.h.Faults {
		x := &j.h.Faults[i]
		at, of := x.touches(ingress), false
		for node := range owners {
			of = of || x.touches(node)
		}
		if c.Done < x.From {
			continue
		}
		var until int64
		switch {
		case x.Kind == Left:
			if !at {
				continue
			}
			until = x.until()
		case x.Kind == Stalled && at && owners[ingress] && x.during(c.seen(), c.Done):
			until = never // the client may not have read meanwhile
		case j.brief(i) || !at && !of && !apart, at && !of && !apart && x.Kind == NoApp:
			continue
		default:
			until = j.cutUntil(x, c, shard, at || apart)
		}
		if until = after(until, int64(j.rules.Settle)); c.Done <= until {
			return x.Kind.String(), 0
		}
		late = max(late, until)
	}
	return "", late
}

// cutUntil is until when something that was done to a node may cut a stream: what has lost
// its leg waits for the next one as long as a request would.
func (j *judge) cutUntil(x *Fault, c *Follow, shard uint32, at bool) int64 {
	until := j.rules.mended(x)
	if !at {
		until = min(until, j.servedAgain(x, shard, c.Done))
	}
	if c.Done-c.seen() >= j.rules.least(j.rules.QueueWait) {
		until = after(until, int64(j.rules.QueueWait))
	}
	return until
}
