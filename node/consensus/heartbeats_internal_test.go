package consensus

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
)

// answered returns the bytes that the library sends as a response.
func answered(tb testing.TB, said string, resp raft.AppendEntriesResponse) []byte {
	tb.Helper()
	var b bytes.Buffer
	e := codec.NewEncoder(&b, heartbeatCodec)
	if err := errors.Join(e.Encode(said), e.Encode(resp)); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func beatOf(term uint64) *raft.AppendEntriesRequest {
	return &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("a/disk"), Addr: []byte("a/disk")}, Term: term,
		Leader: []byte("a/disk"), //nolint:staticcheck // the deprecated field is sent for older versions
	}
}

func respOf(last uint64) raft.AppendEntriesResponse {
	return raft.AppendEntriesResponse{RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte("b/disk"), Addr: []byte("b/disk")}, Term: 7, LastLog: last, Success: true}
}

// far is the remote end of the connections that heartbeats dials. It sends one response after the other, in pieces.
type far struct {
	answers [][][]byte
	dials   int
	heard   []byte
	ended   chan struct{} // of the last connection
}

func (f *far) dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	near, other := net.Pipe()
	if f.dials++; f.ended != nil {
		<-f.ended
	}
	ended := make(chan struct{})
	f.ended = ended
	go func() {
		defer close(ended)
		defer func() { _ = other.Close() }()
		buf := make([]byte, 4096)
		for len(f.answers) > 0 {
			n, err := other.Read(buf)
			if err != nil {
				return
			}
			f.heard = append([]byte(nil), buf[:n]...)
			pieces := f.answers[0]
			f.answers = f.answers[1:]
			for _, p := range pieces {
				if _, err = other.Write(p); err != nil {
					return
				}
			}
		}
		_, _ = other.Read(buf)
	}()
	return near, nil
}

func (f *far) heartbeats() *heartbeatSender {
	return &heartbeatSender{dial: f.dial, timeout: 5 * time.Second, byServer: map[raft.ServerAddress]*heartbeatConn{}}
}

// captured is a stream layer that records what is written.
type captured struct {
	net.Listener
	conn net.Conn
}

func (c captured) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) { return c.conn, nil }

// A heartbeat has exactly the bytes that the library sends, because the remote server may be an older version.
func TestAHeartbeatIsTheLibrarys(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	near, other := net.Pipe()
	lib := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: captured{l, near}, MaxPool: 1, Timeout: time.Second})
	defer func() { _ = lib.Close() }()
	go func() { _ = lib.AppendEntries("b/disk", "b/disk", beatOf(300), &raft.AppendEntriesResponse{}) }()
	want := make([]byte, 4096)
	n, err := other.Read(want)
	if err != nil {
		t.Fatal(err)
	}
	_ = other.Close()
	f := &far{answers: [][][]byte{{answered(t, "", respOf(1))}}}
	var resp raft.AppendEntriesResponse
	if sent, err := f.heartbeats().send("b/disk", beatOf(300), &resp); err != nil || !sent {
		t.Fatal(err, sent)
	}
	if !bytes.Equal(f.heard, want[:n]) {
		t.Errorf("sent %q, the library sends %q", f.heard, want[:n])
	}
}

// A response is decoded correctly whether or not it equals the previous one, and in whatever pieces it arrives.
func TestAnswersToHeartbeatsAreRead(t *testing.T) {
	whole := func(r raft.AppendEntriesResponse) [][]byte { return [][]byte{answered(t, "", r)} }
	long := respOf(1)
	long.ID = bytes.Repeat([]byte("x"), 3000)
	cut := func(r raft.AppendEntriesResponse, at ...int) (out [][]byte) {
		b := answered(t, "", r)
		for _, i := range at {
			i = (i + len(b)) % len(b)
			out = append(out, b[:i])
			b = b[i:]
		}
		return append(out, b)
	}
	steps := []struct {
		name   string
		pieces [][]byte
		want   raft.AppendEntriesResponse
	}{
		{"first", whole(respOf(5)), respOf(5)},
		{"same", whole(respOf(5)), respOf(5)},
		{"longer", whole(respOf(1 << 40)), respOf(1 << 40)},
		{"shorter", whole(respOf(6)), respOf(6)},
		{"the same in pieces", cut(respOf(6), 1, 1, -2), respOf(6)},
		{"same again", whole(respOf(6)), respOf(6)},
		{"begins like the one before", cut(respOf(7), -1), respOf(7)},
		{"too long to keep", whole(long), long},
		{"too long again", whole(long), long},
		{"and short", whole(respOf(7)), respOf(7)},
	}
	f := &far{}
	for _, s := range steps {
		f.answers = append(f.answers, s.pieces)
	}
	h := f.heartbeats()
	for i, s := range steps {
		got := raft.AppendEntriesResponse{LastLog: 99, NoRetryBackoff: true}
		if sent, err := h.send("b/disk", beatOf(uint64(i/3)), &got); err != nil || !sent {
			t.Fatalf("%s: %v, %v", s.name, err, sent)
		}
		if got.LastLog != s.want.LastLog || !bytes.Equal(got.ID, s.want.ID) || got.NoRetryBackoff || !got.Success || got.Term != 7 {
			t.Errorf("%s: read %+v, want %+v", s.name, got, s.want)
		}
	}
	if f.dials != 1 {
		t.Errorf("%d dials, want one", f.dials)
	}
}

// An error that the remote server reports is returned, and the connection stays open. After any other failure the connection is dialed
// again, and no earlier data counts as a response.
func TestHeartbeatsThatFail(t *testing.T) {
	good := answered(t, "", respOf(5))
	f := &far{answers: [][][]byte{
		{good}, {answered(t, "no", respOf(5))}, {good}, // the second response is an error of the remote server
		{append(bytes.Clone(good), 0xa0)}, {good}, // more data than one response
		{[]byte("\xc1garbage")}, {good},
	}}
	h := f.heartbeats()
	for i, want := range []struct {
		fails bool
		dials int
	}{{false, 1}, {true, 1}, {false, 1}, {true, 1}, {false, 2}, {true, 2}, {false, 3}} {
		var got raft.AppendEntriesResponse
		sent, err := h.send("b/disk", beatOf(1), &got)
		if !sent || err != nil != want.fails || f.dials != want.dials || !want.fails && got.LastLog != 5 {
			t.Errorf("%d: %v, %v after %d dials, read %+v; want an error: %v, after %d", i, err, sent, f.dials, got, want.fails, want.dials)
		}
	}
	// The connection is closed before a response: the next heartbeat dials.
	if _, err := h.send("b/disk", beatOf(1), &raft.AppendEntriesResponse{}); !errors.Is(err, io.EOF) {
		t.Errorf("answer of a closed connection: %v", err)
	}
}

// Only one heartbeat per server is in flight. A message with more content than a heartbeat is left to the library.
func TestWhatIsNoHeartbeatIsLeftToTheLibrary(t *testing.T) {
	f := &far{}
	h := f.heartbeats()
	h.connTo("b/disk").mu.Lock()
	if sent, _ := h.send("b/disk", beatOf(1), nil); sent {
		t.Error("a second one was sent beside the first")
	}
	h.connTo("b/disk").mu.Unlock()
	entries, prev := beatOf(1), beatOf(1)
	entries.Entries, prev.PrevLogTerm = []*raft.Log{}, 1
	for _, req := range []*raft.AppendEntriesRequest{entries, prev} {
		if sent, _ := h.send("b/disk", req, nil); sent || f.dials > 0 {
			t.Errorf("%+v was sent as a heartbeat", req)
		}
	}
}

// FuzzHeartbeatAnswer checks that data of any content and segmentation after a valid response is decoded as by the library, or is an error.
func FuzzHeartbeatAnswer(f *testing.F) {
	f.Add(answered(f, "", respOf(5)), uint16(3))
	f.Add(answered(f, "", respOf(1<<40)), uint16(40))
	f.Add(answered(f, "no", respOf(5)), uint16(0))
	f.Add([]byte{0xc1}, uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, at uint16) {
		if len(data) == 0 {
			return
		}
		cut := int(at) % len(data)
		r := bytes.NewReader(data)
		d := codec.NewDecoder(r, heartbeatCodec)
		var said string
		var want raft.AppendEntriesResponse
		wrong := d.Decode(&said)
		if wrong == nil {
			wrong = d.Decode(&want)
		}
		first := answered(t, "", respOf(5))
		peer := &far{answers: [][][]byte{{first}, slices.DeleteFunc([][]byte{data[:cut], data[cut:]}, func(p []byte) bool { return len(p) == 0 })}}
		h := peer.heartbeats()
		var got raft.AppendEntriesResponse
		if _, err := h.send("b/disk", beatOf(1), &got); err != nil {
			t.Fatal(err)
		}
		h.timeout = 50 * time.Millisecond // for a response that never ends
		_, err := h.send("b/disk", beatOf(1), &got)
		switch {
		case err == nil && (wrong != nil || said != ""):
			t.Fatalf("read %+v, the library fails: %v %q", got, wrong, said)
		case err == nil && (got.LastLog != want.LastLog || got.Term != want.Term || got.Success != want.Success || !bytes.Equal(got.ID, want.ID)):
			t.Fatalf("read %+v, the library %+v", got, want)
		}
	})
}
