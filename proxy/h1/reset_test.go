package h1_test

import (
	"testing"

	"shardway/proxy/h1"
)

// A Conn that reuses the memory of a closed one is not affected by it: it can be read, its counters
// start at zero, and it can be closed.
func TestResetConnIsAnotherOne(t *testing.T) {
	near, far := tcpPair(t)
	c := h1.NewConn(near, h1.Options{})
	var r h1.Request
	writeString(t, far, lastRequest)
	if err := c.ReadRequest(&r); err != nil {
		t.Fatal(err)
	}
	c.Writer().PutString("HTTP/1.1 204 No Content\r\n\r\n")
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	c.StopWaiting()
	c.StopRead()
	shut(t, c)
	c.ReleaseBuffers()
	near, far = tcpPair(t)
	c.Reset(near, h1.Options{})
	if c.Received() != 0 || c.Sent() != 0 {
		t.Errorf("it has received %d and sent %d bytes, want none", c.Received(), c.Sent())
	}
	writeString(t, far, lastRequest)
	if err := c.ReadRequest(&r); err != nil {
		t.Errorf("it cannot be read: %v", err)
	}
	shut(t, c)
	if near.Close() == nil {
		t.Error("it was open after Close")
	}
}
