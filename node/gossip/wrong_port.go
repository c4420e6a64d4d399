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

// JoinAttempt is the result of one join address. Err is never nil.
type JoinAttempt struct {
	Addr string
	Err  error
}

// Reason describes Err in a few words, without the address.
func (a JoinAttempt) Reason() string {
	if wrongPort, ok := errors.AsType[*wrongPortError](a.Err); ok {
		return wrongPort.reason
	}
	if ambiguous, ok := errors.AsType[*ambiguousAddrError](a.Err); ok {
		return ambiguous.reason()
	}
	text := a.Err.Error()
	if remedy, _ := encryptionMismatch(text); remedy != "" {
		return remedy
	}
	// memberlist converts errors to text that ends with the error of the system.
	if colon := strings.LastIndex(text, ": "); colon >= 0 {
		text = text[colon+2:]
	}
	return strings.TrimSpace(strings.TrimRight(text, "\n"))
}

// NeedsSecret reports whether another node is at the address, and this node needs its secret.
func (a JoinAttempt) NeedsSecret() bool {
	_, needsSecret := encryptionMismatch(a.Err.Error())
	return needsSecret
}

// IsSelf reports whether the address belongs to this node, or connected to this node.
func (a JoinAttempt) IsSelf() bool {
	_, uncertain := errors.AsType[*ambiguousAddrError](a.Err)
	return uncertain || errors.Is(a.Err, errSelf)
}

// errSelf is the error of a join address that belongs to this node.
var errSelf = errors.New("gossip: join: it is this node itself")

// wrongPortError is the error of a port with another protocol.
type wrongPortError struct{ reason string }

func (e *wrongPortError) Error() string { return e.reason }

const (
	identifyPortTimeout = time.Second
	invalidMessageText  = "received invalid msgType"
	notEncryptedText    = "remote state is not encrypted"
)

// identifyPort describes a port that did not respond as a gossip port, or returns "" if it may be a
// gossip port. joinError is the text of the error of the join. A port that did not respond at all
// may be waiting for the end of a line. With encryption, memberlist reports every other protocol as
// unencrypted gossip, so this function sends an HTTP request, to which ports other than gossip
// respond.
func (g *Gossip) identifyPort(ctx context.Context, addr netip.AddrPort, joinError string) string {
	wasClosedByPeer := strings.Contains(joinError, "EOF") || strings.Contains(joinError, "connection reset")
	hasNoResponse := strings.Contains(joinError, "i/o timeout") && !strings.Contains(joinError, "dial ")
	isOtherProtocol := strings.Contains(joinError, invalidMessageText) || strings.Contains(joinError, notEncryptedText)
	mayBeWrongPort := wasClosedByPeer || hasNoResponse || isOtherProtocol
	if usesSockets := g.options.Transport == nil; !usesSockets || !mayBeWrongPort {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, identifyPortTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(identifyPortTimeout))
	if _, err = io.WriteString(conn, "GET /livez HTTP/1.0\r\n\r\n"); err != nil {
		return ""
	}
	response, _ := io.ReadAll(io.LimitReader(conn, 1<<10)) // a partial response is enough
	return classifyResponse(response, wasClosedByPeer)
}

// classifyResponse describes a port by its response to an HTTP request and by whether it closed
// the gossip connection. It returns "" if neither is conclusive.
func classifyResponse(response []byte, closedByPeer bool) string {
	switch {
	case bytes.HasPrefix(response, []byte("HTTP/")) && bytes.Contains(response, []byte("\r\nServer: shardway-admin\r\n")):
		return "it is the admin port of a node and not its gossip port: name that (--gossip, 7946 unless it is set)"
	case bytes.HasPrefix(response, []byte("HTTP/")):
		return "it is an HTTP port and not a gossip port: name that of the node (--gossip, 7946 unless it is set)"
	case len(response) == 0 && closedByPeer:
		return "it hangs up: is it the peer port of a node? Name its gossip port (--gossip, 7946 unless it is set)"
	}
	return ""
}
