package consensus

import (
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
)

// wire is a connection that responds to each write immediately, and records what is done with it.
type wire struct {
	net.Conn  // nil: no other method is called
	answer    []byte
	empty     int   // the number of empty reads before the first data
	fails     error // of every write
	refuses   error // of every deadline
	left      []byte
	said      []byte
	deadlines []time.Time
	reads     int
	closed    bool
}

// Write records the message, and makes the response available.
func (w *wire) Write(p []byte) (int, error) {
	if w.fails != nil {
		return 0, w.fails
	}
	w.said, w.left = append(w.said[:0], p...), w.answer
	return len(p), nil
}

// Read returns the rest of the response.
func (w *wire) Read(p []byte) (int, error) {
	w.reads++
	if w.empty > 0 {
		w.empty--
		return 0, nil
	}
	n := copy(p, w.left)
	w.left = w.left[n:]
	return n, nil
}

// SetDeadline records the deadline.
func (w *wire) SetDeadline(t time.Time) error {
	w.deadlines = append(w.deadlines, t)
	return w.refuses
}

// Close records the call.
func (w *wire) Close() error {
	w.closed = true
	return nil
}

func wired(timeout time.Duration, w *wire) *heartbeatSender {
	return &heartbeatSender{
		dial:    func(raft.ServerAddress, time.Duration) (net.Conn, error) { return w, nil },
		timeout: timeout, byServer: map[raft.ServerAddress]*heartbeatConn{},
	}
}

// Each server has its own connection, which is dialed once, with the timeout of a heartbeat.
func TestHeartbeatsHaveAConnectionForEachServer(t *testing.T) {
	var dialed []raft.ServerAddress
	h := wired(7*time.Second, nil)
	h.dial = func(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
		if dialed = append(dialed, addr); timeout != h.timeout {
			t.Errorf("%s is dialed within %v, want %v", addr, timeout, h.timeout)
		}
		return &wire{answer: answered(t, "", respOf(uint64(len(dialed))))}, nil
	}
	for range 2 {
		for i, addr := range []raft.ServerAddress{"b/disk", "c/disk"} {
			var resp raft.AppendEntriesResponse
			if sent, err := h.send(addr, beatOf(1), &resp); !sent || err != nil || resp.LastLog != uint64(i+1) {
				t.Errorf("%s: %v, %v, read %+v", addr, sent, err, resp)
			}
		}
	}
	if !slices.Equal(dialed, []raft.ServerAddress{"b/disk", "c/disk"}) {
		t.Errorf("dialed %v, want each once", dialed)
	}
}

// Each change in a heartbeat's content is sent with the next one.
func TestWhatChangesInAHeartbeatIsSent(t *testing.T) {
	w := &wire{answer: answered(t, "", respOf(1))}
	h := wired(time.Second, w)
	for name, change := range map[string]func(*raft.AppendEntriesRequest){
		"term":     func(r *raft.AppendEntriesRequest) { r.Term++ },
		"protocol": func(r *raft.AppendEntriesRequest) { r.ProtocolVersion-- },
		"id":       func(r *raft.AppendEntriesRequest) { r.ID = []byte("a/other") },
		"address":  func(r *raft.AppendEntriesRequest) { r.Addr = []byte("a/other") },
		"leader":   func(r *raft.AppendEntriesRequest) { r.Leader = []byte("a/other") }, //nolint:staticcheck // the deprecated field is sent for older versions
	} {
		changed := beatOf(1)
		change(changed)
		for _, req := range []*raft.AppendEntriesRequest{beatOf(1), changed} {
			if sent, err := h.send("b/disk", req, new(raft.AppendEntriesResponse)); !sent || err != nil {
				t.Fatalf("%s: %v, %v", name, sent, err)
			}
			var got raft.AppendEntriesRequest
			if err := codec.NewDecoderBytes(w.said[1:], heartbeatCodec).Decode(&got); err != nil || w.said[0] != rpcAppendEntries || !equalHeartbeats(&got, req) {
				t.Errorf("another %s: sent %+v, want %+v (%v)", name, got, req, err)
			}
			if got.Term != req.Term || got.ProtocolVersion != req.ProtocolVersion || string(got.ID)+string(got.Addr) != string(req.ID)+string(req.Addr) ||
				string(got.Leader) != string(req.Leader) { //nolint:staticcheck // the deprecated field is sent for older versions
				t.Errorf("another %s: sent %+v, want %+v", name, got, req)
			}
		}
	}
}

// The timeout of each heartbeat starts when it is sent. Without a timeout it may take any time.
func TestEachHeartbeatHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: answered(t, "", respOf(1))}
		for _, timeout := range []time.Duration{3 * time.Second, 0} {
			h := wired(timeout, w)
			w.deadlines = nil
			for range 3 {
				time.Sleep(time.Second)
				if sent, err := h.send("b/disk", beatOf(1), new(raft.AppendEntriesResponse)); !sent || err != nil {
					t.Fatal(sent, err)
				}
				if n := len(w.deadlines); timeout > 0 && (n == 0 || !w.deadlines[n-1].Equal(time.Now().Add(timeout))) {
					t.Errorf("deadlines %v, want the last one %v from now", w.deadlines, timeout)
				}
			}
			if timeout == 0 && len(w.deadlines) > 0 {
				t.Errorf("deadlines %v, want none", w.deadlines)
			}
		}
	})
}

// A heartbeat that cannot be sent has no response: no read waits for it, and the next heartbeat dials.
func TestHeartbeatThatCannotBeSentIsNotWaitedFor(t *testing.T) {
	broken := errors.New("broken")
	good := answered(t, "", respOf(1))
	for name, w := range map[string]*wire{"write": {answer: good, fails: broken}, "deadline": {answer: good, refuses: broken}, "dial": nil} {
		h := wired(time.Second, &wire{answer: good})
		again, dials := h.dial, 0
		h.dial = func(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
			switch dials++; {
			case dials > 1:
				return again(addr, timeout)
			case w == nil:
				return nil, broken
			}
			return w, nil
		}
		if sent, err := h.send("b/disk", beatOf(1), new(raft.AppendEntriesResponse)); !sent || !errors.Is(err, broken) {
			t.Errorf("%s: %v, %v", name, sent, err)
		}
		if w != nil && (w.reads > 0 || !w.closed) {
			t.Errorf("%s: %d reads, closed: %v; want none, and that it is", name, w.reads, w.closed)
		}
		if sent, err := h.send("b/disk", beatOf(1), new(raft.AppendEntriesResponse)); !sent || err != nil || dials != 2 {
			t.Errorf("%s, the next: %v, %v after %d dials", name, sent, err, dials)
		}
	}
}

// An error of the remote server is returned each time it is reported, with its own text, and the other fields of the response are decoded.
func TestErrorsOfAnotherServerAreReportedEachTime(t *testing.T) {
	w := &wire{}
	h := wired(time.Second, w)
	for i, said := range []string{"", "no", "no", "", "no"} {
		w.answer = answered(t, said, respOf(5))
		var resp raft.AppendEntriesResponse
		_, err := h.send("b/disk", beatOf(1), &resp)
		if said == "" && err != nil || said != "" && (err == nil || err.Error() != said) || resp.LastLog != 5 || resp.Term != 7 {
			t.Errorf("%d: %v and %+v, want %q and the whole answer", i, err, resp, said)
		}
	}
	if w.closed {
		t.Error("the connection is closed, and nothing is the matter with it")
	}
}

// An empty read is no response, also before the first response.
func TestEmptyReadIsNoHeartbeatResponse(t *testing.T) {
	w := &wire{answer: answered(t, "", respOf(5)), empty: 1}
	var resp raft.AppendEntriesResponse
	if sent, err := wired(time.Second, w).send("b/disk", beatOf(1), &resp); !sent || err != nil || resp.LastLog != 5 {
		t.Errorf("%v, %v, read %+v", sent, err, resp)
	}
}

// Heartbeats of one term and their responses have the same bytes, so neither is encoded or decoded by reflection again.
func TestHeartbeatsThatStayTheSameTakeNoMemory(t *testing.T) {
	w := &wire{answer: answered(t, "", respOf(5))}
	h, req := wired(time.Second, w), beatOf(1)
	w.deadlines = make([]time.Time, 0, 1<<10)
	var resp raft.AppendEntriesResponse
	if n := testing.AllocsPerRun(100, func() {
		if _, err := h.send("b/disk", req, &resp); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("each takes %v allocations, want none", n)
	}
}
