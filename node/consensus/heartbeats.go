package consensus

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
)

// heartbeats sends what the library's transport would for a heartbeat, over a connection to each
// server that is for nothing else. Those of one term are the same bytes, and so are the answers
// while a follower's log stands still: MessagePack is written and read by reflection only when
// they change, which was a twelfth of what a leader at rest does.
type heartbeats struct {
	dial    func(raft.ServerAddress, time.Duration) (net.Conn, error)
	timeout time.Duration // of one

	mu sync.Mutex
	to map[raft.ServerAddress]*beats
}

// beats is heartbeats to one server.
type beats struct {
	mu   sync.Mutex // held by who sends one
	conn net.Conn   // nil: none
	req  raft.AppendEntriesRequest
	said []byte // req, as it is sent
	resp raft.AppendEntriesResponse
	came []byte // resp, as it came; nil: none did
	buf  [512]byte
}

// beatsHandle is as the library's transport has it, but for times, of which a heartbeat has none.
var beatsHandle = &codec.MsgpackHandle{}

// rpcAppendEntries is what the library has before a request that is one.
const rpcAppendEntries = 0

var errBeyond = errors.New("consensus: more came than the answer to a heartbeat")

// send sends one and waits for the answer, or returns false: another one is under way there, or
// it is not what it takes for a heartbeat. Then the library's transport does.
func (h *heartbeats) send(addr raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (sent bool, err error) {
	if req.PrevLogTerm != 0 || req.Entries != nil {
		return false, nil
	}
	b := h.at(addr)
	if !b.mu.TryLock() {
		return false, nil
	}
	defer b.mu.Unlock()
	if err = b.write(h, addr, req); err == nil {
		if err = b.read(resp); err == nil {
			return true, nil
		}
	}
	var said *saidError
	if !errors.As(err, &said) && b.conn != nil {
		_ = b.conn.Close() // it is of no use any more
		b.conn = nil
	}
	return true, err
}

// saidError is an answer: the other server's error.
type saidError struct{ text string }

func (e *saidError) Error() string { return e.text }

func (h *heartbeats) at(addr raft.ServerAddress) *beats {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.to[addr]
	if b == nil {
		b = &beats{}
		h.to[addr] = b
	}
	return b
}

func (b *beats) write(h *heartbeats, addr raft.ServerAddress, req *raft.AppendEntriesRequest) (err error) {
	if b.said == nil || !same(&b.req, req) {
		said := []byte{rpcAppendEntries}
		var body []byte
		if err = codec.NewEncoderBytes(&body, beatsHandle).Encode(req); err != nil {
			return fmt.Errorf("consensus: heartbeat: %w", err)
		}
		b.req, b.said = *req, append(said, body...)
	}
	if b.conn == nil {
		if b.conn, err = h.dial(addr, h.timeout); err != nil {
			return err
		}
	}
	if h.timeout > 0 {
		if err = b.conn.SetDeadline(time.Now().Add(h.timeout)); err != nil {
			return err
		}
	}
	_, err = b.conn.Write(b.said)
	return err
}

// same reports whether two heartbeats are.
func same(a, b *raft.AppendEntriesRequest) bool {
	return a.Term == b.Term && a.ProtocolVersion == b.ProtocolVersion && bytes.Equal(a.ID, b.ID) && bytes.Equal(a.Addr, b.Addr) &&
		bytes.Equal(a.Leader, b.Leader) //nolint:staticcheck // it is sent, for older versions
}

func (b *beats) read(resp *raft.AppendEntriesResponse) error {
	n, err := b.conn.Read(b.buf[:])
	if err != nil {
		return err
	}
	if b.came != nil && bytes.Equal(b.buf[:n], b.came) { // MessagePack says where it ends
		*resp = b.resp
		return nil
	}
	var raw bytes.Buffer
	r := bufio.NewReader(io.TeeReader(io.MultiReader(bytes.NewReader(b.buf[:n]), b.conn), &raw))
	d := codec.NewDecoder(r, beatsHandle)
	var said string
	var got raft.AppendEntriesResponse
	if err = d.Decode(&said); err == nil {
		err = d.Decode(&got)
	}
	if err != nil {
		return err
	}
	if r.Buffered() > 0 {
		return errBeyond
	}
	if *resp = got; said != "" {
		return &saidError{said}
	}
	b.came, b.resp = raw.Bytes(), got
	return nil
}
