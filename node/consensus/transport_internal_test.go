package consensus

import (
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// failingLayer opens streams whose reads fail with err.
type failingLayer struct{ err error }

func (l failingLayer) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	return failingConn{near, l.err}, nil
}

func (failingLayer) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (failingLayer) Close() error              { return nil }
func (failingLayer) Addr() net.Addr            { return serverAddr("a/1") }

type failingConn struct {
	net.Conn
	err error
}

func (c failingConn) Read([]byte) (int, error) { return 0, c.err }

// The library wraps the error of a read in the error of its decoder. A leader that does not recognize a reset stream waits for up to 10 s
// before it sends entries to the server again.
func TestStreamErrorsAreRecognizedInResponses(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"reset":   {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, true},
		"end":     {io.EOF, true},
		"closed":  {net.ErrClosed, true},
		"timeout": {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, false},
	} {
		t.Run(name, func(t *testing.T) {
			trans := raft.NewNetworkTransport(failingLayer{tc.err}, 1, time.Second, io.Discard)
			defer func() { _ = trans.Close() }()
			err := trans.AppendEntries("b", "b/1", &raft.AppendEntriesRequest{}, &raft.AppendEntriesResponse{})
			if got := isStreamError(err); err == nil || got != tc.want {
				t.Errorf("isStreamError(%T %v) = %v, want %v", err, err, got, tc.want)
			}
		})
	}
}
