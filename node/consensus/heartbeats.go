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

// heartbeatSender sends heartbeats in the format of the Raft library, over a separate connection to each server. All
// heartbeats of a term are identical, and so are the responses while the follower's log does not change. MessagePack
// encoding and decoding, which use reflection, are therefore needed only after a change. This saves a twelfth of an
// idle leader's CPU time.
type heartbeatSender struct {
	dial    func(raft.ServerAddress, time.Duration) (net.Conn, error)
	timeout time.Duration // of one heartbeat

	mu       sync.Mutex // protects byServer
	byServer map[raft.ServerAddress]*heartbeatConn
}

// heartbeatConn is the heartbeat connection to one server.
type heartbeatConn struct {
	mu              sync.Mutex // held while a heartbeat is sent; protects the following fields
	netConn         net.Conn   // nil means not connected
	lastRequest     raft.AppendEntriesRequest
	encodedRequest  []byte // lastRequest as sent
	lastResponse    raft.AppendEntriesResponse
	encodedResponse []byte // lastResponse as received; nil means no response yet
	buf             [512]byte
}

// heartbeatCodec has the same settings as the transport of the Raft library, except for times, which
// heartbeats do not contain.
var heartbeatCodec = &codec.MsgpackHandle{}

// rpcAppendEntries is the type byte that the Raft library sends before an AppendEntries request.
const rpcAppendEntries = 0

var errTrailingData = errors.New("consensus: unexpected data after the response to a heartbeat")

// send sends a heartbeat and waits for the response. It returns handled == false if another heartbeat to this server is
// in progress or req is not a plain heartbeat. The caller must then use the Raft library's transport.
func (h *heartbeatSender) send(addr raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (handled bool, err error) {
	if req.PrevLogTerm != 0 || req.Entries != nil {
		return false, nil
	}
	hc := h.connTo(addr)
	if !hc.mu.TryLock() {
		return false, nil
	}
	defer hc.mu.Unlock()
	if err = hc.write(h, addr, req); err == nil {
		if err = hc.read(resp); err == nil {
			return true, nil
		}
	}
	var remote *remoteError
	if !errors.As(err, &remote) && hc.netConn != nil {
		_ = hc.netConn.Close() // the connection is out of step
		hc.netConn = nil
	}
	return true, err
}

// remoteError is an error in the response of the other server.
type remoteError struct{ text string }

func (e *remoteError) Error() string { return e.text }

// connTo returns the heartbeat connection to a server. It may not be connected yet.
func (h *heartbeatSender) connTo(addr raft.ServerAddress) *heartbeatConn {
	h.mu.Lock()
	defer h.mu.Unlock()
	conn := h.byServer[addr]
	if conn == nil {
		conn = &heartbeatConn{}
		h.byServer[addr] = conn
	}
	return conn
}

// write sends a heartbeat, and connects first if necessary. It encodes req only if req differs from the
// previous heartbeat.
func (hc *heartbeatConn) write(sender *heartbeatSender, addr raft.ServerAddress, req *raft.AppendEntriesRequest) (err error) {
	if hc.encodedRequest == nil || !equalHeartbeats(&hc.lastRequest, req) {
		message := []byte{rpcAppendEntries}
		var body []byte
		if err = codec.NewEncoderBytes(&body, heartbeatCodec).Encode(req); err != nil {
			return fmt.Errorf("consensus: heartbeat: %w", err)
		}
		hc.lastRequest, hc.encodedRequest = *req, append(message, body...)
	}
	if hc.netConn == nil {
		if hc.netConn, err = sender.dial(addr, sender.timeout); err != nil {
			return err
		}
	}
	if sender.timeout > 0 {
		if err = hc.netConn.SetDeadline(time.Now().Add(sender.timeout)); err != nil {
			return err
		}
	}
	_, err = hc.netConn.Write(hc.encodedRequest)
	return err
}

// equalHeartbeats reports whether two heartbeats have the same encoding.
func equalHeartbeats(a, b *raft.AppendEntriesRequest) bool {
	return a.Term == b.Term && a.ProtocolVersion == b.ProtocolVersion && bytes.Equal(a.ID, b.ID) && bytes.Equal(a.Addr, b.Addr) &&
		bytes.Equal(a.Leader, b.Leader) //nolint:staticcheck // the field is part of the encoding
}

// read reads the response to a heartbeat. It decodes the response only if the bytes differ from the previous
// response.
func (hc *heartbeatConn) read(resp *raft.AppendEntriesResponse) error {
	n, err := hc.netConn.Read(hc.buf[:])
	if err != nil {
		return err
	}
	if hc.encodedResponse != nil && bytes.Equal(hc.buf[:n], hc.encodedResponse) { // a MessagePack value is self-delimiting
		*resp = hc.lastResponse
		return nil
	}
	var received bytes.Buffer
	reader := bufio.NewReader(io.TeeReader(io.MultiReader(bytes.NewReader(hc.buf[:n]), hc.netConn), &received))
	decoder := codec.NewDecoder(reader, heartbeatCodec)
	var remoteErr string
	var decoded raft.AppendEntriesResponse
	if err = decoder.Decode(&remoteErr); err == nil {
		err = decoder.Decode(&decoded)
	}
	if err != nil {
		return err
	}
	if reader.Buffered() > 0 {
		return errTrailingData
	}
	if *resp = decoded; remoteErr != "" {
		return &remoteError{remoteErr}
	}
	hc.encodedResponse, hc.lastResponse = received.Bytes(), decoded
	return nil
}
