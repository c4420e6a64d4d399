package mux

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// rawPeer is a session whose peer is played by the test, frame by frame.
type rawPeer struct {
	*Session
	t        *testing.T
	conn     net.Conn
	accepted chan *Stream
	runErr   error // result of Run

	mu         sync.Mutex
	sentFrames []frame // frames that the session has sent
}

// withRawPeer runs f in a synctest bubble. The frames that the session sends are read from the first
// call of startReading on.
func withRawPeer(t *testing.T, accepted bool, f func(r *rawPeer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		r := &rawPeer{t: t, conn: far, accepted: make(chan *Stream, 8)}
		var give func(*Stream) bool
		if accepted {
			give = func(st *Stream) bool { r.accepted <- st; return true }
		}
		r.Session = newSession(near, NewBudget(MaxStreams, nil), give)
		var runs sync.WaitGroup
		runs.Go(func() { r.runErr = r.Run() })
		defer runs.Wait()
		defer func() { _ = far.Close() }()
		defer r.Fail(net.ErrClosed)
		synctest.Wait() // until readLoop blocks
		f(r)
	})
}

// startReading reads the frames that the session sends until it ends.
func (r *rawPeer) startReading() {
	go func() {
		var have []byte
		buf := make([]byte, 4<<10)
		for {
			n, err := r.conn.Read(buf)
			have = append(have, buf[:n]...)
			for {
				f, m, bad := parseFrame(have)
				if bad != nil {
					r.t.Errorf("invalid frame sent: %v", bad)
				}
				if m == 0 {
					break
				}
				f.data = bytes.Clone(f.data)
				have = have[m:]
				r.mu.Lock()
				r.sentFrames = append(r.sentFrames, f)
				r.mu.Unlock()
			}
			if err != nil {
				return
			}
		}
	}()
}

// readOpenFrames reads n frames that open streams, and then stops reading. It must be called before
// startReading.
func (r *rawPeer) readOpenFrames(n int) {
	r.t.Helper()
	buf := make([]byte, len(appendFrame(nil, frameOpen, 1, nil)))
	for range n {
		if _, err := io.ReadFull(r.conn, buf); err != nil {
			r.t.Fatal(err)
		}
		opened, _, err := parseFrame(buf)
		if err != nil || opened.typ != frameOpen {
			r.t.Fatalf("sent frame of type %v, %v, want %v", opened.typ, err, frameOpen)
		}
		r.sentFrames = append(r.sentFrames, opened)
	}
}

// sent returns the number of sent frames of a type, and their concatenated data.
func (r *rawPeer) sent(k frameType) (n int, data []byte) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.sentFrames {
		if f.typ == k {
			n++
			data = append(data, f.data...)
		}
	}
	return n, data
}

func (r *rawPeer) send(k frameType, stream uint32, data []byte) {
	r.t.Helper()
	_, err := r.conn.Write(appendFrame(nil, k, stream, data))
	synctest.Wait()
	if err != nil && r.runErr == nil {
		r.t.Errorf("frame %d: %v", k, err)
	}
}

// A peer that sends beyond its credit loses the session, because its data would use unlimited
// memory.
func TestSendingBeyondCreditFailsSession(t *testing.T) {
	withRawPeer(t, true, func(r *rawPeer) {
		r.startReading()
		r.send(frameOpen, 1, nil)
		st := <-r.accepted
		for range Window / maxFrameData {
			r.send(frameData, 1, make([]byte, maxFrameData))
		}
		if r.runErr != nil {
			t.Fatalf("Run returned within the credit: %v", r.runErr)
		}
		if n, err := io.ReadFull(st, make([]byte, Window/2)); err != nil {
			t.Fatalf("read %d, %v", n, err)
		}
		if n, b := r.sent(frameWindowUpdate); n != 1 || !bytes.Equal(b, binary.BigEndian.AppendUint32(nil, Window/2)) {
			t.Fatalf("%d window updates, %x, want one of half the window", n, b)
		}
		for range Window / 2 / maxFrameData {
			r.send(frameData, 1, make([]byte, maxFrameData))
		}
		if r.runErr != nil {
			t.Fatalf("Run returned within the returned credit: %v", r.runErr)
		}
		r.send(frameData, 1, []byte("x"))
		if !errors.Is(r.runErr, errProtocol) {
			t.Fatalf("Run = %v, want %v", r.runErr, errProtocol)
		}
	})
}

func TestWriteDoesNotExceedCredit(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) {
		r.startReading()
		st, err := r.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		text := bytes.Repeat([]byte("0123456789abcdef"), Window/8)
		go func() { _, _ = st.Write(text) }()
		if _, b := r.sent(frameData); !bytes.Equal(b, text[:Window]) {
			t.Fatalf("%d bytes are sent at once, want %d", len(b), Window)
		}
		r.send(frameWindowUpdate, 1, []byte{0, 0, 0, 7})
		if _, b := r.sent(frameData); !bytes.Equal(b, text[:Window+7]) {
			t.Fatalf("%d bytes are sent after an update of 7", len(b))
		}
		r.send(frameWindowUpdate, 1, []byte{0, 0xff, 0, 0})
		r.send(frameWindowUpdate, 1, []byte{0, 1, 0, 0})
		if !errors.Is(r.runErr, errProtocol) {
			t.Fatalf("Run = %v after a window update beyond the window, want %v", r.runErr, errProtocol)
		}
	})
}

// Resets and pings overtake queued data. The close of a stream does not.
func TestUrgentFramesOvertakeData(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) {
		a, _ := r.OpenStream()
		b, _ := r.OpenStream()
		r.readOpenFrames(2)
		_, _ = a.Write([]byte("is being written"))
		synctest.Wait() // the peer does not read yet
		_, _ = a.Write(make([]byte, maxFrameData))
		_, _ = a.Write([]byte("end"))
		_ = a.Close()
		_ = b.SetLinger(0)
		_ = b.Close()
		r.Ping()
		r.startReading()
		synctest.Wait()
		var order []string
		for _, f := range r.sentFrames {
			order = append(order, map[frameType]string{
				frameOpen: "open", frameData: "data", frameClose: "close", frameReset: "reset", framePing: "ping",
			}[f.typ])
		}
		const want = "open open data reset ping data data close"
		if got := strings.Join(order, " "); got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
	})
}

func TestLateFramesAreIgnored(t *testing.T) {
	withRawPeer(t, true, func(r *rawPeer) {
		r.startReading()
		r.send(frameOpen, 3, nil)
		st := <-r.accepted
		_ = st.Close()
		r.send(frameClose, 3, nil)
		for _, f := range []frame{
			{frameData, 3, []byte("x")},
			{frameWindowUpdate, 3, []byte{0xff, 0, 0, 0}},
			{frameEndStream, 3, nil},
			{frameReset, 3, nil},
			{frameData, 2, []byte("x")},
			{framePing, 0, nil},
			{framePong, 0, nil},
		} {
			if r.send(f.typ, f.stream, f.data); r.runErr != nil {
				t.Fatalf("a late %v fails the session: %v", f, r.runErr)
			}
		}
		r.send(frameOpen, 4, nil)
		r.send(frameData, 4, []byte("its own"))
		got := make([]byte, 7)
		if _, err := io.ReadFull(<-r.accepted, got); err != nil || string(got) != "its own" {
			t.Errorf("read %q, %v", got, err)
		}
	})
}

// A stream that was opened while the GOAWAY was on its way is not accepted.
func TestStreamThatCrossesGoAwayIsIgnored(t *testing.T) {
	withRawPeer(t, true, func(r *rawPeer) {
		r.startReading()
		r.send(frameOpen, 3, nil)
		<-r.accepted
		r.GoAway(time.Minute)
		r.send(frameOpen, 4, nil)
		r.send(frameData, 4, []byte("x"))
		r.send(frameData, 3, []byte("x"))
		if n := len(r.accepted); n != 0 || r.runErr != nil {
			t.Errorf("%d streams were accepted after the GOAWAY, and Run = %v", n, r.runErr)
		}
		synctest.Wait()
		if f := r.sentFrames[len(r.sentFrames)-1]; f.typ != frameGoAway || f.stream != 3 {
			t.Errorf("last frame %v, want GOAWAY with stream 3", f)
		}
	})
}

func TestProtocolErrorFailsSession(t *testing.T) {
	for what, f := range map[string]frame{
		"a stream that was never opened": {frameData, 4, []byte("x")},
		"a number that was used":         {frameOpen, 3, nil},
		"a lower number":                 {frameOpen, 2, nil},
		"an open stream with bytes":      {frameOpen, 4, []byte("x")},
		"no bytes":                       {frameData, 3, nil},
		"too many bytes":                 {frameData, 3, make([]byte, maxFrameData+1)},
		"stream 0":                       {frameData, 0, []byte("x")},
		"a ping of a stream":             {framePing, 3, nil},
		"a short credit":                 {frameWindowUpdate, 3, []byte("x")},
		"an unknown kind":                {frameRefuse + 1, 3, nil},
		"a last with bytes":              {frameGoAway, 3, []byte("x")},
		"a last word of who opens":       {frameGoAway, 3, nil},
		"a refusal of who opens":         {frameRefuse, 3, nil},
		"kind 0":                         {0, 3, nil},
	} {
		t.Run(what, func(t *testing.T) {
			withRawPeer(t, true, func(r *rawPeer) {
				r.send(frameOpen, 3, nil)
				r.send(f.typ, f.stream, f.data)
				if !errors.Is(r.runErr, errProtocol) {
					t.Errorf("Run = %v, want %v", r.runErr, errProtocol)
				}
			})
		})
	}
	withRawPeer(t, false, func(r *rawPeer) {
		if r.send(frameOpen, 1, nil); !errors.Is(r.runErr, errProtocol) {
			t.Errorf("Run = %v after the server opened a stream", r.runErr)
		}
	})
	withRawPeer(t, false, func(r *rawPeer) {
		_, _ = r.OpenStream()
		r.send(frameData, 1, []byte("x"))
		if r.send(frameRefuse, 1, nil); !errors.Is(r.runErr, errProtocol) {
			t.Errorf("Run = %v after the refusal of an answered stream", r.runErr)
		}
	})
}
