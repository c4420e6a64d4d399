package history_test

import (
	"testing"
	"time"

	"shardway/e2e/kit/history"
)

// streamHistory is a history with a client of node i that has received the events 1 to 10 of a key. The
// shard moved from a to b at 1000, because a was terminated at 900. Node a runs again from 1500 on.
type streamHistory struct {
	*historyBuilder
	*history.Follower
}

func newStreamHistory() *streamHistory {
	builder := validHistory()
	f := history.Follower{Name: "f", Key: key(1), Conns: []history.FollowConn{{ID: "f.1", Target: "i", Sent: 100 * ms, LastEvent: 1050 * ms, Status: 200}}}
	all := func(node string) (owners []string) {
		for range shards {
			owners = append(owners, node)
		}
		return owners
	}
	builder.Maps = []history.Map{{Epoch: 5, Owners: all("a")}, {Epoch: 9, At: 1000 * ms, Owners: all("b")}}
	builder.addFaultAt(history.Terminated, "a", 900, 1400, 1500)
	stream := &streamHistory{historyBuilder: builder, Follower: &f}
	for n := range uint64(10) {
		stream.addEvent(n + 1)
	}
	return stream
}

// addFaultAt adds a fault at absolute times. 0 for exitedBy means that the process continued.
func (s *historyBuilder) addFaultAt(kind history.FaultKind, node string, from, exitedBy, until int64) {
	s.Faults = append(s.Faults, history.Fault{Kind: kind, Node: node, From: from * ms, LatestExit: exitedBy * ms, Until: until * ms})
}

// lastConn returns the last connection of the client.
func (x *streamHistory) lastConn() *history.FollowConn { return &x.Conns[len(x.Conns)-1] }

// addEvent adds the next event with the expected text.
func (x *streamHistory) addEvent(n uint64) {
	x.lastConn().Events = append(x.lastConn().Events, history.Event{ID: n, Text: history.EventText(x.Key, n)})
}

// breakConn breaks the last connection. lastEvent is the arrival of its last event, and done its end.
func (x *streamHistory) breakConn(lastEvent, done int64) {
	conn := x.lastConn()
	conn.LastEvent, conn.Done, conn.Err = lastEvent*ms, done*ms, "unexpected EOF"
}

// reconnect reconnects the client to a node.
func (x *streamHistory) reconnect(target string, at int64) {
	x.Conns = append(x.Conns, history.FollowConn{ID: "f.2", Target: target, Sent: at * ms, Status: 200})
}

// The test plants one error at a time, or none. Check must find it, and nothing else.
func TestCheckDetectsEachInsertedStreamError(t *testing.T) {
	for _, c := range []struct {
		name  string
		want  history.Kind // 0 means none
		plant func(stream *streamHistory)
	}{
		{"continues", 0, func(*streamHistory) {}},
		{"the last event repeated", history.RepeatedEvent, func(stream *streamHistory) { stream.addEvent(10) }},
		{"an older event repeated", history.RepeatedEvent, func(stream *streamHistory) {
			stream.lastConn().Events = stream.lastConn().Events[:5]
			stream.addEvent(3)
		}},
		{"an event without an id", history.RepeatedEvent, func(stream *streamHistory) { stream.addEvent(0) }},
		{"an event is missing", history.MissingEvent, func(stream *streamHistory) { stream.addEvent(12) }},
		{"the first event is missing", history.MissingEvent, func(stream *streamHistory) { stream.lastConn().Events = stream.lastConn().Events[1:] }},
		{"received in an earlier check", history.RepeatedEvent, func(stream *streamHistory) {
			stream.After = 10
			stream.lastConn().Events = stream.lastConn().Events[9:]
		}},
		{"text of another event", history.WrongEvent, func(stream *streamHistory) {
			stream.addEvent(11)
			stream.lastConn().Events[10].Text = history.EventText(stream.Key, 12)
		}},
		{"text of another key", history.WrongEvent, func(stream *streamHistory) {
			stream.addEvent(11)
			stream.lastConn().Events[10].Text = history.EventText(key(2), 11)
		}},

		{"broken by a planned move", history.BrokenStream, func(stream *streamHistory) { stream.breakConn(1050, 1100) }},
		{"broken when its node terminates", 0, func(stream *streamHistory) {
			stream.addFaultAt(history.Terminated, "i", 1090, 1200, 0)
			stream.breakConn(1050, 1100)
		}},
		{"broken before its node was terminated", history.BrokenStream, func(stream *streamHistory) {
			stream.addFaultAt(history.Terminated, "i", 1101, 1200, 0)
			stream.breakConn(1050, 1100)
		}},
		{"broken after its node ran again", history.BrokenStream, func(stream *streamHistory) {
			stream.addFaultAt(history.Terminated, "i", 10, 20, 90)
			stream.breakConn(1050, 1100)
		}},
		{"broken when another node terminates", history.BrokenStream, func(stream *streamHistory) {
			stream.addFaultAt(history.Terminated, "c", 1090, 1200, 0)
			stream.breakConn(1050, 1100)
		}},
		{"ended by a planned move", history.BrokenStream, func(stream *streamHistory) { stream.breakConn(1050, 1100); stream.lastConn().Ended = true }},
		{"ended when its node terminates", history.BrokenStream, func(stream *streamHistory) {
			stream.addFaultAt(history.Terminated, "i", 1090, 1200, 0)
			stream.breakConn(1050, 1100)
			stream.lastConn().Ended = true
		}},
		{"reconnects after the last event", 0, func(stream *streamHistory) {
			stream.addFaultAt(history.Killed, "i", 1090, 1095, 0)
			stream.breakConn(1050, 1100)
			stream.reconnect("b", 1110)
			stream.addEvent(11)
		}},
		{"reconnects, and an event is missing", history.MissingEvent, func(stream *streamHistory) {
			stream.addFaultAt(history.Killed, "i", 1090, 1095, 0)
			stream.breakConn(1050, 1100)
			stream.reconnect("b", 1110)
			stream.addEvent(12)
		}},
		{"reconnects, and an event is repeated", history.RepeatedEvent, func(stream *streamHistory) {
			stream.addFaultAt(history.Killed, "i", 1090, 1095, 0)
			stream.breakConn(1050, 1100)
			stream.reconnect("b", 1110)
			stream.addEvent(10)
		}},

		{"broken by the death of its owner", 0, func(stream *streamHistory) {
			stream.addFaultAt(history.Killed, "a", 1060, 1070, 0)
			stream.breakConn(1050, 1100)
		}},
		{"broken by the death of another node", history.BrokenStream, func(stream *streamHistory) {
			stream.addFaultAt(history.Killed, "c", 1060, 1070, 0)
			stream.breakConn(1050, 1100)
		}},
		{"broken before the death of its owner", history.BrokenStream, func(stream *streamHistory) {
			stream.addFaultAt(history.Killed, "a", 1110, 1120, 0)
			stream.breakConn(1050, 1100)
		}},
		{"broken long after another node took over its shard", history.BrokenStream, func(stream *streamHistory) {
			stream.addFaultAt(history.Killed, "a", 1060, 1070, 0)
			stream.breakConn(1050, 2200)
		}},
		{"broken by a short pause", history.BrokenStream, func(stream *streamHistory) {
			stream.addFaultAt(history.Paused, "a", 900, 0, 1200)
			stream.breakConn(1050, 1100)
		}},
		{"broken by a long pause", 0, func(stream *streamHistory) {
			stream.addFaultAt(history.Paused, "a", 900, 0, 1900)
			stream.breakConn(1050, 1100)
		}},
		{"broken when its owner was unreachable", 0, func(stream *streamHistory) {
			stream.addFaultAt(history.Unreachable, "b", 900, 0, 1900)
			stream.breakConn(1050, 1100)
		}},
		{"broken by the death of the app of its owner", 0, func(stream *streamHistory) {
			stream.addFaultAt(history.AppDown, "b", 1060, 1070, 1080)
			stream.breakConn(1050, 1100)
		}},
		{"broken by the death of another app", history.BrokenStream, func(stream *streamHistory) {
			stream.addFaultAt(history.AppDown, "i", 1060, 1070, 1080)
			stream.breakConn(1050, 1100)
		}},
		{"broken by a stall of its owner", 0, func(stream *streamHistory) {
			stream.lastConn().Target = "a"
			stream.addFaultAt(history.Stalled, "", 1051, 0, 1080)
			stream.breakConn(1050, 1100)
		}},
		{"broken by a stall of another node", history.BrokenStream, func(stream *streamHistory) {
			stream.addFaultAt(history.Stalled, "", 1051, 0, 1080)
			stream.breakConn(1050, 1100)
		}},
		{"times out waiting for its owner", 0, func(stream *streamHistory) {
			stream.addFaultAt(history.Unreachable, "b", 900, 0, 1900)
			stream.breakConn(1050, 12_000)
		}},
		{"does not wait for its owner", history.BrokenStream, func(stream *streamHistory) {
			stream.addFaultAt(history.Unreachable, "b", 900, 0, 1900)
			stream.breakConn(3950, 4000)
		}},
		{"had no event ID when its shard moved", 0, func(stream *streamHistory) {
			stream.lastConn().Events = nil
			stream.lastConn().Sent = 995 * ms
			stream.breakConn(0, 1100)
		}},
		{"had no event ID", history.BrokenStream, func(stream *streamHistory) {
			stream.lastConn().Events = nil
			stream.lastConn().Sent = 5000 * ms
			stream.breakConn(0, 5100)
		}},
		{"is bound to its node", 0, func(stream *streamHistory) { stream.BoundToNode = true; stream.breakConn(1050, 1100) }},
		{"is bound to its node, and receives events", history.RepeatedEvent, func(stream *streamHistory) { stream.BoundToNode = true; stream.addEvent(10) }},

		{"no listener at a node that has ended", 0, func(stream *streamHistory) {
			stream.reconnect("a", 1450)
			stream.lastConn().Refused, stream.lastConn().Status, stream.lastConn().Done = true, 0, 1451*ms
			stream.Conns = stream.Conns[1:]
		}},
		{"no listener at a node that runs", history.NotListening, func(stream *streamHistory) {
			stream.reconnect("b", 1450)
			stream.lastConn().Refused, stream.lastConn().Status, stream.lastConn().Done = true, 0, 1451*ms
			stream.Conns = stream.Conns[1:]
		}},
		{"no response", history.Lost, func(stream *streamHistory) {
			stream.reconnect("b", 1450)
			stream.lastConn().Status, stream.lastConn().Done = 0, 1451*ms
			stream.Conns = stream.Conns[1:]
		}},
		{"an error", history.Failed, func(stream *streamHistory) {
			stream.reconnect("b", 1450)
			stream.lastConn().Status, stream.lastConn().Error, stream.lastConn().Done = 503, "queue-full", 1451*ms
			stream.Conns = stream.Conns[1:]
		}},
	} {
		stream := newStreamHistory()
		c.plant(stream)
		stream.Followers = []history.Follower{*stream.Follower}
		report := history.Check(stream.History, history.Rules{Shards: shards, Targets: map[string]string{"a": "a", "b": "b", "i": "i"}})
		if c.want == 0 && len(report.Violations) > 0 || c.want != 0 && (report.Count(c.want) != 1 || len(report.Violations) != 1) {
			t.Errorf("%s: %v\n%v, want %v once", c.name, report, report.Violations, c.want)
		}
	}
}

// An upstream connection of a resumable stream has no grace period. Its app may notice
// late that it was aborted, at any age, within MaxAbortNotice.
func TestResumableStreamHasNoGracePeriod(t *testing.T) {
	for _, c := range []struct {
		resumes bool
		late    int64
		want    int
	}{{true, 200, 0}, {true, 300, 1}, {false, 200, 1}} {
		builder := validHistory()
		builder.addRun("x", "GET", key(1), "b", 10, 100+c.late)
		leg := &builder.Runs[len(builder.Runs)-1]
		leg.Aborted, leg.Stream, leg.Resumes = true, true, c.resumes
		builder.now += 100
		builder.addRequest("y", "GET", key(1), "c", 11, 5)
		report := history.Check(builder.History, history.Rules{Shards: shards, OtherRequests: map[string]bool{"x": false}, MaxAbortNotice: 250 * time.Millisecond})
		if report.Count(history.TwoOwners) != c.want || len(report.Violations) != c.want {
			t.Errorf("%+v: %v\n%v", c, report, report.Violations)
		}
	}
}
