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

// Attempt is the result of one join address. Err is never nil.
type Attempt struct {
	Addr string
	Err  error
}

// Why describes Err in a few words, without the address.
func (a Attempt) Why() string {
	if wrong, ok := errors.AsType[*wrongPortError](a.Err); ok {
		return wrong.reason
	}
	if u, ok := errors.AsType[*uncertainError](a.Err); ok {
		return u.reason()
	}
	text := a.Err.Error()
	if why, _ := encryptionMismatch(text); why != "" {
		return why
	}
	// memberlist converts errors to text that ends with the error of the system.
	if i := strings.LastIndex(text, ": "); i >= 0 {
		text = text[i+2:]
	}
	return strings.TrimSpace(strings.TrimRight(text, "\n"))
}

// NeedsSecret reports whether another node is at the address, and this node needs its secret.
func (a Attempt) NeedsSecret() bool {
	_, needs := encryptionMismatch(a.Err.Error())
	return needs
}

// Itself reports whether the address belongs to this node, or led to this node.
func (a Attempt) Itself() bool {
	_, uncertain := errors.AsType[*uncertainError](a.Err)
	return uncertain || errors.Is(a.Err, errItself)
}

// errItself is the error of a join address that belongs to this node.
var errItself = errors.New("gossip: join: it is this node itself")

// wrongPortError is the error of a port with another protocol.
type wrongPortError struct{ reason string }

func (e *wrongPortError) Error() string { return e.reason }

const (
	otherPortTimeout = time.Second
	unknownMessage   = "received invalid msgType"
	notEncrypted     = "remote state is not encrypted"
)

// identifyPort describes a port that did not respond as a gossip port, or returns "" if it may be
// one. A port that did not respond at all may be waiting for the end of a line. With encryption,
// memberlist reports every other protocol as unencrypted gossip. So this function sends an HTTP
// request, to which ports other than gossip respond.
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
	response, _ := io.ReadAll(io.LimitReader(c, 1<<10)) // a partial response is enough
	return classifyResponse(response, hungUp)
}

// classifyResponse describes a port by its response to an HTTP request and by whether it closed
// the gossip connection. It returns "" if neither is conclusive.
func classifyResponse(response []byte, hungUp bool) string {
	switch {
	case bytes.HasPrefix(response, []byte("HTTP/")) && bytes.Contains(response, []byte("\r\nServer: shardway-admin\r\n")):
		return "it is the admin port of a node and not its gossip port: name that (--gossip, 7946 unless it is set)"
	case bytes.HasPrefix(response, []byte("HTTP/")):
		return "it is an HTTP port and not a gossip port: name that of the node (--gossip, 7946 unless it is set)"
	case len(response) == 0 && hungUp:
		return "it hangs up: is it the peer port of a node? Name its gossip port (--gossip, 7946 unless it is set)"
	}
	return ""
}
