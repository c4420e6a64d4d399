package gossip

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"
)

// Attempt is what became of one address of Join. Err is never nil.
type Attempt struct {
	Addr string
	Err  error
}

// Why says it in a few words, without the address.
func (a Attempt) Why() string {
	if said, ok := errors.AsType[*wrongPortError](a.Err); ok {
		return said.reason
	}
	if u, ok := errors.AsType[*uncertainError](a.Err); ok {
		return u.reason()
	}
	text := a.Err.Error()
	if why, _ := encryptionMismatch(text); why != "" {
		return why
	}
	// memberlist flattens errors: what the system said comes last.
	if i := strings.LastIndex(text, ": "); i >= 0 {
		text = text[i+2:]
	}
	return strings.TrimSpace(strings.TrimRight(text, "\n"))
}

// NeedsSecret reports that another node is there, which this one would understand with its secret.
func (a Attempt) NeedsSecret() bool {
	_, needs := encryptionMismatch(a.Err.Error())
	return needs
}

// Itself reports that the address is this node's own, or led to this node.
func (a Attempt) Itself() bool {
	_, uncertain := errors.AsType[*uncertainError](a.Err)
	return uncertain || errors.Is(a.Err, errItself)
}

// errItself is what an address comes to that is this node's own.
var errItself = errors.New("gossip: join: it is this node itself")

// foreignError is that of a port that speaks something else.
type wrongPortError struct{ reason string }

func (e *wrongPortError) Error() string { return e.reason }

const (
	otherPortTimeout = time.Second
	unknownMessage   = "received invalid msgType"
	notEncrypted     = "remote state is not encrypted"
)

// otherPort says what a port is that gave an answer which is none of gossip, or none, as one
// that waits for the end of a line; empty: it may be gossip. A node with a secret takes every
// such answer for one without encryption, so the port is asked once more, in HTTP, which all
// but gossip answer.
func (g *Gossip) identifyPort(ctx context.Context, to netip.AddrPort, text string) string {
	hungUp := strings.Contains(text, "EOF") || strings.Contains(text, "connection reset")
	silent := strings.Contains(text, "i/o timeout") && !strings.Contains(text, "dial ")
	if g.o.Transport != nil || !hungUp && !silent && !strings.Contains(text, unknownMessage) && !strings.Contains(text, notEncrypted) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, otherPortTimeout)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return ""
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(otherPortTimeout))
	if _, err = io.WriteString(c, "GET /livez HTTP/1.0\r\n\r\n"); err != nil {
		return ""
	}
	said, _ := io.ReadAll(io.LimitReader(c, 1<<10)) // what came before the connection broke counts
	return classifyResponse(said, hungUp)
}

// spoken says what port it is that answers an HTTP request so, and that hung up on gossip
// or not; empty: nothing tells.
func classifyResponse(said []byte, hungUp bool) string {
	switch {
	case bytes.HasPrefix(said, []byte("HTTP/")) && bytes.Contains(said, []byte("\r\nServer: shardway-admin\r\n")):
		return "it is the admin port of a node and not its gossip port: name that (--gossip, 7946 unless it is set)"
	case bytes.HasPrefix(said, []byte("HTTP/")):
		return "it is an HTTP port and not a gossip port: name that of the node (--gossip, 7946 unless it is set)"
	case len(said) == 0 && hungUp:
		return "it hangs up: is it the peer port of a node? Name its gossip port (--gossip, 7946 unless it is set)"
	}
	return ""
}
